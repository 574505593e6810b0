"""A running S3 server, as a test sees it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from coldstore.objects.s3 import S3Objects
from coldstore.objects.s3_requests import connect
from coldstore.objects.settings import S3Settings
from coldstore.shared.chance import SystemChance

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True)
class S3Server:
    """Where it listens, who may enter, and a bucket that exists."""

    endpoint: str
    access_key: str = "jjq-test"
    secret_key: str = "jjq-secret"
    region: str = "us-east-1"
    bucket: str = "jjq-test"
    _clients: dict[S3Settings, S3Client] = field(default_factory=dict, repr=False, compare=False)

    def at(self, endpoint: str) -> S3Server:
        """The same server seen through another address, such as a proxy's."""
        return dataclasses.replace(self, endpoint=endpoint)

    def settings(self, **changes: Any) -> S3Settings:
        """Settings to reach it, with `changes`."""
        found = S3Settings(
            endpoint=self.endpoint,
            region=self.region,
            access_key=self.access_key,
            secret_key=self.secret_key,
        )
        return dataclasses.replace(found, **changes)

    def objects(self, prefix: str | None = None, **more: Any) -> S3Objects:
        """A store in the bucket, by default under a prefix of its own; `more` goes to S3Objects.

        Stores share their clients, which cost more to make than most tests: close the server, not them.
        """
        prefix = f"t-{SystemChance().token()}" if prefix is None else prefix
        settings = more.pop("settings", None) or self.settings()
        if settings not in self._clients:
            self._clients[settings] = connect(settings)
        return S3Objects(self.bucket, prefix, settings, client=self._clients[settings], **more)

    def close(self) -> None:
        """Close the connections of all its stores."""
        for client in self._clients.values():
            client.close()

    def client(self, read_seconds: float = 30.0) -> S3Client:
        """A plain client, to look behind the store's back. Close it."""
        return boto3.session.Session().client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=self.region,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=Config(
                s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}, read_timeout=read_seconds
            ),
        )

    def make_bucket(self) -> bool:
        """Create the bucket and write to it; False while the server is not ready for that."""
        client = self.client(read_seconds=2.0)  # a first write may be stuck for longer than a second one
        try:
            if self.bucket not in [found["Name"] for found in client.list_buckets()["Buckets"]]:
                client.create_bucket(Bucket=self.bucket)
            client.put_object(Bucket=self.bucket, Key="ready", Body=b"ready")
        except (BotoCoreError, ClientError):
            return False
        finally:
            client.close()
        return True
