"""One bucket, one attempt: single requests to S3, with errors in our words and no retries."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from coldstore.objects.port import Object, ObjectInfo
from coldstore.objects.retry import Transient
from coldstore.objects.s3_errors import BeyondEnd, translate_s3_errors
from coldstore.objects.settings import S3Settings
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Denied, InvalidInput, NotFound

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import (
        CompletedPartTypeDef,
        GetObjectRequestTypeDef,
        ListObjectsV2OutputTypeDef,
        ListObjectsV2RequestTypeDef,
        PutObjectRequestTypeDef,
    )

PUT_ID: Final = "jjq-put"  # the put's identity, in the object's metadata


class Condition(NamedTuple):
    """When a put may take effect: always, if the key is absent, or if it still has this etag."""

    when: Literal["always", "absent", "match"]
    etag: str = ""


class HeadReply(NamedTuple):
    """What HEAD says of an object."""

    info: ObjectInfo
    put_id: str | None


class ListPage(NamedTuple):
    """A part of a folder's listing: objects, subfolders (with the '/'), and how to go on, if it does."""

    objects: list[ObjectInfo]
    folders: list[str]
    token: str | None


class Bucket:
    """A bucket under a prefix; keys in and out are relative to it."""

    def __init__(self, bucket: str, prefix: str, client: S3Client, clock: Clock) -> None:
        self.url = f"s3://{bucket}/{prefix}"
        self.prefix = prefix
        self._bucket = bucket
        self._seen = False
        self._client = client
        self._clock = clock  # to tell by how much it is wrong, if that is why the store refuses us

    def get(self, key: str, start: int, end: int | None) -> Object:
        if start == end:
            return Object(b"", self.head(key).info.etag)  # S3 has no empty range
        request: GetObjectRequestTypeDef = {"Bucket": self._bucket, "Key": self.prefix + key}
        if ranged := start > 0 or end is not None:
            request["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
        try:
            with translate_s3_errors(f"read {key}", self._bucket, self._clock):
                reply = self._client.get_object(**request)
                with closing(reply["Body"]) as body:
                    data = body.read()
        except BeyondEnd:
            return self._get_beyond(key, start)
        if len(data) != reply["ContentLength"]:
            raise Transient(f"{len(data)} of {reply['ContentLength']} bytes arrived", doubt=False)
        if ranged and reply["ResponseMetadata"]["HTTPStatusCode"] != 206:
            data = data[start:end]  # a store that knows no ranges sends everything
        return Object(data, reply["ETag"])

    def _get_beyond(self, key: str, start: int) -> Object:
        info = self.head(key).info
        if info.size > start:
            raise Transient("the object changed meanwhile", doubt=False)
        return Object(b"", info.etag)

    def head(self, key: str) -> HeadReply:
        try:
            with translate_s3_errors(f"look at {key}", self._bucket, self._clock):
                reply = self._client.head_object(Bucket=self._bucket, Key=self.prefix + key)
        except NotFound:
            self._check_bucket()
            raise
        modified_us = int(reply["LastModified"].timestamp() * 1_000_000)
        info = ObjectInfo(key, reply["ContentLength"], reply["ETag"], modified_us)
        return HeadReply(info, reply["Metadata"].get(PUT_ID))

    def _check_bucket(self) -> None:
        """HEAD has no body to say whether the object or its bucket is missing, so ask, once."""
        if not self._seen:
            with suppress(Denied):  # a user without the right to list may still read
                self.page("", "", None, 1)
            self._seen = True

    def put(self, key: str, body: bytes, put_id: str, condition: Condition) -> str:
        request: PutObjectRequestTypeDef = {
            "Bucket": self._bucket,
            "Key": self.prefix + key,
            "Body": body,
            "Metadata": {PUT_ID: put_id},
        }
        if condition.when == "absent":
            request["IfNoneMatch"] = "*"
        elif condition.when == "match":
            request["IfMatch"] = condition.etag
        with translate_s3_errors(f"write {key}", self._bucket, self._clock):
            return self._client.put_object(**request)["ETag"]

    def delete(self, key: str) -> None:
        with translate_s3_errors(f"delete {key}", self._bucket, self._clock):
            self._client.delete_object(Bucket=self._bucket, Key=self.prefix + key)

    def begin_parts(self, key: str) -> str:
        with translate_s3_errors(f"write {key}", self._bucket, self._clock):
            found = self._client.create_multipart_upload(Bucket=self._bucket, Key=self.prefix + key)
            return found["UploadId"]

    def put_part(self, key: str, upload: str, number: int, data: bytes) -> str:
        with translate_s3_errors(f"write {key}", self._bucket, self._clock):
            return self._client.upload_part(
                Bucket=self._bucket, Key=self.prefix + key, UploadId=upload, PartNumber=number, Body=data
            )["ETag"]

    def complete_parts(self, key: str, upload: str, tags: Sequence[str]) -> None:
        parts: list[CompletedPartTypeDef] = [
            {"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)
        ]
        with translate_s3_errors(f"write {key}", self._bucket, self._clock):
            self._client.complete_multipart_upload(
                Bucket=self._bucket, Key=self.prefix + key, UploadId=upload, MultipartUpload={"Parts": parts}
            )

    def abort_parts(self, key: str, upload: str) -> None:
        with translate_s3_errors(f"give up {key}", self._bucket, self._clock):
            self._client.abort_multipart_upload(Bucket=self._bucket, Key=self.prefix + key, UploadId=upload)

    def open_uploads(self, key: str) -> Sequence[str]:
        """A page of them: what is left is found the next time."""
        with translate_s3_errors(f"look for parts of {key}", self._bucket, self._clock):
            reply = self._client.list_multipart_uploads(Bucket=self._bucket, Prefix=self.prefix + key)
        return [found["UploadId"] for found in reply.get("Uploads", []) if found["Key"] == self.prefix + key]

    def page(self, prefix: str, start: str, token: str | None, count: int) -> ListPage:
        """Up to `count` entries of one folder, from after `start` or from where `token` points."""
        request: ListObjectsV2RequestTypeDef = {
            "Bucket": self._bucket,
            "Prefix": self.prefix + prefix,
            "Delimiter": "/",
            "MaxKeys": count,
        }
        if token is not None:
            request["ContinuationToken"] = token
        elif start:
            request["StartAfter"] = self.prefix + start
        with translate_s3_errors(f"list {prefix}", self._bucket, self._clock):
            return self._page(self._client.list_objects_v2(**request))

    def _page(self, reply: ListObjectsV2OutputTypeDef) -> ListPage:
        skip = len(self.prefix)
        objects = [
            ObjectInfo(
                found["Key"][skip:],
                found["Size"],
                found["ETag"],
                int(found["LastModified"].timestamp() * 1_000_000),
            )
            for found in reply.get("Contents", [])
        ]
        folders = [below["Prefix"][skip:] for below in reply.get("CommonPrefixes", [])]
        if not reply["IsTruncated"]:
            return ListPage(objects, folders, None)
        if not (token := reply.get("NextContinuationToken")):
            raise InvalidInput(f"cannot list {self.url}: the store has more, but does not say from where")
        return ListPage(objects, folders, token)

    def close(self) -> None:
        self._client.close()


def connect(settings: S3Settings) -> S3Client:
    """A client that sends every request once, without retries; many threads and stores may share it."""
    config = Config(
        connect_timeout=settings.connect_seconds,
        read_timeout=settings.read_seconds,
        max_pool_connections=settings.connections,
        retries={"total_max_attempts": 1, "mode": "standard"},  # none: see retry.py
        s3={"addressing_style": settings.addressing},
        # Trailing checksums are newer than most stores that speak S3; every block has its sha256.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        tcp_keepalive=True,
        user_agent_extra="jjq",
    )
    try:
        session = boto3.session.Session(
            aws_access_key_id=settings.access_key,
            aws_secret_access_key=settings.secret_key,
            aws_session_token=settings.session_token,
            region_name=settings.region,
        )
        region = session.region_name or ("us-east-1" if settings.endpoint else None)
        return session.client("s3", region_name=region, endpoint_url=settings.endpoint, config=config)
    except (BotoCoreError, ValueError) as error:
        raise InvalidInput(f"cannot use S3: {error}") from error
