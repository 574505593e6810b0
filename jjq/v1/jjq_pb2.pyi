from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Form(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FORM_UNSPECIFIED: _ClassVar[Form]
    FORM_ELEMENTS: _ClassVar[Form]
    FORM_ARROW: _ClassVar[Form]

class Content(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONTENT_UNSPECIFIED: _ClassVar[Content]
    CONTENT_BYTES: _ClassVar[Content]
    CONTENT_TEXT: _ClassVar[Content]
    CONTENT_JSON: _ClassVar[Content]
    CONTENT_LEDGER: _ClassVar[Content]

class Stage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STAGE_UNSPECIFIED: _ClassVar[Stage]
    STAGE_READY: _ClassVar[Stage]
    STAGE_WRITTEN: _ClassVar[Stage]
    STAGE_SYNCED: _ClassVar[Stage]
    STAGE_COLD: _ClassVar[Stage]

class BlockKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BLOCK_KIND_UNSPECIFIED: _ClassVar[BlockKind]
    BLOCK_KIND_HOT_HOT: _ClassVar[BlockKind]
    BLOCK_KIND_SEALING: _ClassVar[BlockKind]
    BLOCK_KIND_YOUNG: _ClassVar[BlockKind]
    BLOCK_KIND_FINAL: _ClassVar[BlockKind]

class TaskState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_STATE_UNSPECIFIED: _ClassVar[TaskState]
    TASK_STATE_READY: _ClassVar[TaskState]
    TASK_STATE_TAKEN: _ClassVar[TaskState]
    TASK_STATE_DELAYED: _ClassVar[TaskState]
    TASK_STATE_BURIED: _ClassVar[TaskState]
    TASK_STATE_DONE: _ClassVar[TaskState]

class TaskVerb(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_VERB_UNSPECIFIED: _ClassVar[TaskVerb]
    TASK_VERB_ACK: _ClassVar[TaskVerb]
    TASK_VERB_NACK: _ClassVar[TaskVerb]
    TASK_VERB_RELEASE: _ClassVar[TaskVerb]
    TASK_VERB_TOUCH: _ClassVar[TaskVerb]
    TASK_VERB_BURY: _ClassVar[TaskVerb]
    TASK_VERB_KICK: _ClassVar[TaskVerb]
    TASK_VERB_DELETE: _ClassVar[TaskVerb]

class OnExhausted(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_EXHAUSTED_UNSPECIFIED: _ClassVar[OnExhausted]
    ON_EXHAUSTED_BURY: _ClassVar[OnExhausted]
    ON_EXHAUSTED_DROP: _ClassVar[OnExhausted]

class ErrorKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_KIND_UNSPECIFIED: _ClassVar[ErrorKind]
    ERROR_KIND_INVALID_INPUT: _ClassVar[ErrorKind]
    ERROR_KIND_OUT_OF_RANGE: _ClassVar[ErrorKind]
    ERROR_KIND_NOT_FOUND: _ClassVar[ErrorKind]
    ERROR_KIND_CONFLICT: _ClassVar[ErrorKind]
    ERROR_KIND_FENCED: _ClassVar[ErrorKind]
    ERROR_KIND_DENIED: _ClassVar[ErrorKind]
    ERROR_KIND_EXHAUSTED: _ClassVar[ErrorKind]
    ERROR_KIND_UNAVAILABLE: _ClassVar[ErrorKind]
    ERROR_KIND_DATA_LOSS: _ClassVar[ErrorKind]

class JournalKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOURNAL_KIND_UNSPECIFIED: _ClassVar[JournalKind]
    JOURNAL_KIND_DISK: _ClassVar[JournalKind]
    JOURNAL_KIND_S3: _ClassVar[JournalKind]
FORM_UNSPECIFIED: Form
FORM_ELEMENTS: Form
FORM_ARROW: Form
CONTENT_UNSPECIFIED: Content
CONTENT_BYTES: Content
CONTENT_TEXT: Content
CONTENT_JSON: Content
CONTENT_LEDGER: Content
STAGE_UNSPECIFIED: Stage
STAGE_READY: Stage
STAGE_WRITTEN: Stage
STAGE_SYNCED: Stage
STAGE_COLD: Stage
BLOCK_KIND_UNSPECIFIED: BlockKind
BLOCK_KIND_HOT_HOT: BlockKind
BLOCK_KIND_SEALING: BlockKind
BLOCK_KIND_YOUNG: BlockKind
BLOCK_KIND_FINAL: BlockKind
TASK_STATE_UNSPECIFIED: TaskState
TASK_STATE_READY: TaskState
TASK_STATE_TAKEN: TaskState
TASK_STATE_DELAYED: TaskState
TASK_STATE_BURIED: TaskState
TASK_STATE_DONE: TaskState
TASK_VERB_UNSPECIFIED: TaskVerb
TASK_VERB_ACK: TaskVerb
TASK_VERB_NACK: TaskVerb
TASK_VERB_RELEASE: TaskVerb
TASK_VERB_TOUCH: TaskVerb
TASK_VERB_BURY: TaskVerb
TASK_VERB_KICK: TaskVerb
TASK_VERB_DELETE: TaskVerb
ON_EXHAUSTED_UNSPECIFIED: OnExhausted
ON_EXHAUSTED_BURY: OnExhausted
ON_EXHAUSTED_DROP: OnExhausted
ERROR_KIND_UNSPECIFIED: ErrorKind
ERROR_KIND_INVALID_INPUT: ErrorKind
ERROR_KIND_OUT_OF_RANGE: ErrorKind
ERROR_KIND_NOT_FOUND: ErrorKind
ERROR_KIND_CONFLICT: ErrorKind
ERROR_KIND_FENCED: ErrorKind
ERROR_KIND_DENIED: ErrorKind
ERROR_KIND_EXHAUSTED: ErrorKind
ERROR_KIND_UNAVAILABLE: ErrorKind
ERROR_KIND_DATA_LOSS: ErrorKind
JOURNAL_KIND_UNSPECIFIED: JournalKind
JOURNAL_KIND_DISK: JournalKind
JOURNAL_KIND_S3: JournalKind

class Element(_message.Message):
    __slots__ = ("offset", "timestamp_us", "key", "value", "headers")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    offset: int
    timestamp_us: int
    key: bytes
    value: bytes
    headers: _containers.ScalarMap[str, bytes]
    def __init__(self, offset: _Optional[int] = ..., timestamp_us: _Optional[int] = ..., key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., headers: _Optional[_Mapping[str, bytes]] = ...) -> None: ...

class Elements(_message.Message):
    __slots__ = ("elements",)
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    elements: _containers.RepeatedCompositeFieldContainer[Element]
    def __init__(self, elements: _Optional[_Iterable[_Union[Element, _Mapping]]] = ...) -> None: ...

class ArrowBatch(_message.Message):
    __slots__ = ("ipc",)
    IPC_FIELD_NUMBER: _ClassVar[int]
    ipc: bytes
    def __init__(self, ipc: _Optional[bytes] = ...) -> None: ...

class Queue(_message.Message):
    __slots__ = ("id", "name", "content", "block_bytes", "block_seconds", "created_us", "first_offset", "next_offset", "cold_offset", "subscribers")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    BLOCK_BYTES_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    COLD_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBERS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    content: Content
    block_bytes: int
    block_seconds: float
    created_us: int
    first_offset: int
    next_offset: int
    cold_offset: int
    subscribers: int
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., content: _Optional[_Union[Content, str]] = ..., block_bytes: _Optional[int] = ..., block_seconds: _Optional[float] = ..., created_us: _Optional[int] = ..., first_offset: _Optional[int] = ..., next_offset: _Optional[int] = ..., cold_offset: _Optional[int] = ..., subscribers: _Optional[int] = ...) -> None: ...

class CreateQueueRequest(_message.Message):
    __slots__ = ("name", "content", "block_bytes", "block_seconds")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    BLOCK_BYTES_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SECONDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    content: Content
    block_bytes: int
    block_seconds: float
    def __init__(self, name: _Optional[str] = ..., content: _Optional[_Union[Content, str]] = ..., block_bytes: _Optional[int] = ..., block_seconds: _Optional[float] = ...) -> None: ...

class CreateQueueResponse(_message.Message):
    __slots__ = ("queue", "owner")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    owner: str
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class GetQueueRequest(_message.Message):
    __slots__ = ("name", "subscriber")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    name: str
    subscriber: str
    def __init__(self, name: _Optional[str] = ..., subscriber: _Optional[str] = ...) -> None: ...

class GetQueueResponse(_message.Message):
    __slots__ = ("queue", "owner")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    owner: str
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class AcceptLossRequest(_message.Message):
    __slots__ = ("queue", "next_offset", "dry_run")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    queue: str
    next_offset: int
    dry_run: bool
    def __init__(self, queue: _Optional[str] = ..., next_offset: _Optional[int] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class AcceptLossResponse(_message.Message):
    __slots__ = ("loss", "owner")
    LOSS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    loss: Loss
    owner: str
    def __init__(self, loss: _Optional[_Union[Loss, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class Loss(_message.Message):
    __slots__ = ("queue", "ranges", "in_doubt", "cause", "next_offset")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    IN_DOUBT_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    queue: str
    ranges: _containers.RepeatedCompositeFieldContainer[LostRange]
    in_doubt: bool
    cause: str
    next_offset: int
    def __init__(self, queue: _Optional[str] = ..., ranges: _Optional[_Iterable[_Union[LostRange, _Mapping]]] = ..., in_doubt: _Optional[bool] = ..., cause: _Optional[str] = ..., next_offset: _Optional[int] = ...) -> None: ...

class LostRange(_message.Message):
    __slots__ = ("first_offset", "next_offset")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    next_offset: int
    def __init__(self, first_offset: _Optional[int] = ..., next_offset: _Optional[int] = ...) -> None: ...

class ListQueuesRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "ledgers")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    ledgers: bool
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., ledgers: _Optional[bool] = ...) -> None: ...

class ListQueuesResponse(_message.Message):
    __slots__ = ("queues", "next_page_token")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    next_page_token: str
    def __init__(self, queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateQueueRequest(_message.Message):
    __slots__ = ("queue", "block_bytes", "block_seconds")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    BLOCK_BYTES_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SECONDS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    block_bytes: int
    block_seconds: float
    def __init__(self, queue: _Optional[str] = ..., block_bytes: _Optional[int] = ..., block_seconds: _Optional[float] = ...) -> None: ...

class UpdateQueueResponse(_message.Message):
    __slots__ = ("queue", "owner")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    owner: str
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class Deletion(_message.Message):
    __slots__ = ("queue", "id", "deleted_us", "until_us")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    DELETED_US_FIELD_NUMBER: _ClassVar[int]
    UNTIL_US_FIELD_NUMBER: _ClassVar[int]
    queue: str
    id: str
    deleted_us: int
    until_us: int
    def __init__(self, queue: _Optional[str] = ..., id: _Optional[str] = ..., deleted_us: _Optional[int] = ..., until_us: _Optional[int] = ...) -> None: ...

class DeleteQueueRequest(_message.Message):
    __slots__ = ("queue", "grace_seconds", "dry_run")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    GRACE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    queue: str
    grace_seconds: float
    dry_run: bool
    def __init__(self, queue: _Optional[str] = ..., grace_seconds: _Optional[float] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class DeleteQueueResponse(_message.Message):
    __slots__ = ("deletion", "owner")
    DELETION_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    deletion: Deletion
    owner: str
    def __init__(self, deletion: _Optional[_Union[Deletion, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class UndeleteQueueRequest(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    def __init__(self, queue: _Optional[str] = ...) -> None: ...

class UndeleteQueueResponse(_message.Message):
    __slots__ = ("queue", "owner")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    owner: str
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class SealQueueRequest(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    def __init__(self, queue: _Optional[str] = ...) -> None: ...

class SealQueueResponse(_message.Message):
    __slots__ = ("queue", "owner")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    owner: str
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class NodeStatus(_message.Message):
    __slots__ = ("node", "version", "uptime_seconds", "figures", "lag_elements", "lag_seconds", "cold_seconds", "cold_error", "error")
    class FiguresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    NODE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    UPTIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    LAG_ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    LAG_SECONDS_FIELD_NUMBER: _ClassVar[int]
    COLD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    COLD_ERROR_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    node: str
    version: str
    uptime_seconds: float
    figures: _containers.ScalarMap[str, float]
    lag_elements: int
    lag_seconds: float
    cold_seconds: float
    cold_error: str
    error: str
    def __init__(self, node: _Optional[str] = ..., version: _Optional[str] = ..., uptime_seconds: _Optional[float] = ..., figures: _Optional[_Mapping[str, float]] = ..., lag_elements: _Optional[int] = ..., lag_seconds: _Optional[float] = ..., cold_seconds: _Optional[float] = ..., cold_error: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class GetTransportsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetTransportsResponse(_message.Message):
    __slots__ = ("websocket_port", "instance")
    WEBSOCKET_PORT_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    websocket_port: int
    instance: str
    def __init__(self, websocket_port: _Optional[int] = ..., instance: _Optional[str] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeStatus]
    def __init__(self, nodes: _Optional[_Iterable[_Union[NodeStatus, _Mapping]]] = ...) -> None: ...

class Resolved(_message.Message):
    __slots__ = ("offset", "timestamp_us", "first_offset", "next_offset", "rule")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    offset: int
    timestamp_us: int
    first_offset: int
    next_offset: int
    rule: str
    def __init__(self, offset: _Optional[int] = ..., timestamp_us: _Optional[int] = ..., first_offset: _Optional[int] = ..., next_offset: _Optional[int] = ..., rule: _Optional[str] = ...) -> None: ...

class Subscriber(_message.Message):
    __slots__ = ("id", "name", "queue", "offset", "previous", "block", "start", "created_us", "asleep", "lag", "resolved", "lag_seconds")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    ASLEEP_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_FIELD_NUMBER: _ClassVar[int]
    LAG_SECONDS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    queue: str
    offset: int
    previous: int
    block: int
    start: str
    created_us: int
    asleep: bool
    lag: int
    resolved: Resolved
    lag_seconds: float
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., queue: _Optional[str] = ..., offset: _Optional[int] = ..., previous: _Optional[int] = ..., block: _Optional[int] = ..., start: _Optional[str] = ..., created_us: _Optional[int] = ..., asleep: _Optional[bool] = ..., lag: _Optional[int] = ..., resolved: _Optional[_Union[Resolved, _Mapping]] = ..., lag_seconds: _Optional[float] = ...) -> None: ...

class CreateSubscriberRequest(_message.Message):
    __slots__ = ("queue", "name", "start", "clamp", "dry_run")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    CLAMP_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    queue: str
    name: str
    start: str
    clamp: bool
    dry_run: bool
    def __init__(self, queue: _Optional[str] = ..., name: _Optional[str] = ..., start: _Optional[str] = ..., clamp: _Optional[bool] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class CreateSubscriberResponse(_message.Message):
    __slots__ = ("subscriber", "owner")
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    subscriber: Subscriber
    owner: str
    def __init__(self, subscriber: _Optional[_Union[Subscriber, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class GetSubscriberRequest(_message.Message):
    __slots__ = ("subscriber",)
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    subscriber: str
    def __init__(self, subscriber: _Optional[str] = ...) -> None: ...

class GetSubscriberResponse(_message.Message):
    __slots__ = ("subscriber", "owner")
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    subscriber: Subscriber
    owner: str
    def __init__(self, subscriber: _Optional[_Union[Subscriber, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class ListSubscribersRequest(_message.Message):
    __slots__ = ("queue", "page_size", "page_token")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    queue: str
    page_size: int
    page_token: str
    def __init__(self, queue: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSubscribersResponse(_message.Message):
    __slots__ = ("subscribers", "next_page_token", "owner")
    SUBSCRIBERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    subscribers: _containers.RepeatedCompositeFieldContainer[Subscriber]
    next_page_token: str
    owner: str
    def __init__(self, subscribers: _Optional[_Iterable[_Union[Subscriber, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...

class DeleteSubscriberRequest(_message.Message):
    __slots__ = ("subscriber",)
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    subscriber: str
    def __init__(self, subscriber: _Optional[str] = ...) -> None: ...

class DeleteSubscriberResponse(_message.Message):
    __slots__ = ("owner",)
    OWNER_FIELD_NUMBER: _ClassVar[int]
    owner: str
    def __init__(self, owner: _Optional[str] = ...) -> None: ...

class SeekRequest(_message.Message):
    __slots__ = ("subscriber", "start", "clamp", "dry_run")
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    CLAMP_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    subscriber: str
    start: str
    clamp: bool
    dry_run: bool
    def __init__(self, subscriber: _Optional[str] = ..., start: _Optional[str] = ..., clamp: _Optional[bool] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class SeekResponse(_message.Message):
    __slots__ = ("subscriber", "owner")
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    subscriber: Subscriber
    owner: str
    def __init__(self, subscriber: _Optional[_Union[Subscriber, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class SleepRequest(_message.Message):
    __slots__ = ("subscriber",)
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    subscriber: str
    def __init__(self, subscriber: _Optional[str] = ...) -> None: ...

class SleepResponse(_message.Message):
    __slots__ = ("subscriber", "owner")
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    subscriber: Subscriber
    owner: str
    def __init__(self, subscriber: _Optional[_Union[Subscriber, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class WakeupRequest(_message.Message):
    __slots__ = ("subscriber",)
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    subscriber: str
    def __init__(self, subscriber: _Optional[str] = ...) -> None: ...

class WakeupResponse(_message.Message):
    __slots__ = ("subscriber", "owner")
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    subscriber: Subscriber
    owner: str
    def __init__(self, subscriber: _Optional[_Union[Subscriber, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class ConfirmRequest(_message.Message):
    __slots__ = ("subscriber", "offset")
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    subscriber: str
    offset: int
    def __init__(self, subscriber: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class ConfirmResponse(_message.Message):
    __slots__ = ("owner",)
    OWNER_FIELD_NUMBER: _ClassVar[int]
    owner: str
    def __init__(self, owner: _Optional[str] = ...) -> None: ...

class LargeObject(_message.Message):
    __slots__ = ("sha256", "size", "media_type", "name")
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    sha256: str
    size: int
    media_type: str
    name: str
    def __init__(self, sha256: _Optional[str] = ..., size: _Optional[int] = ..., media_type: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ObjectReference(_message.Message):
    __slots__ = ("uri", "size", "sha256", "media_type", "name")
    URI_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    uri: str
    size: int
    sha256: str
    media_type: str
    name: str
    def __init__(self, uri: _Optional[str] = ..., size: _Optional[int] = ..., sha256: _Optional[str] = ..., media_type: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class Attachment(_message.Message):
    __slots__ = ("element", "object", "reference")
    ELEMENT_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    element: int
    object: LargeObject
    reference: ObjectReference
    def __init__(self, element: _Optional[int] = ..., object: _Optional[_Union[LargeObject, _Mapping]] = ..., reference: _Optional[_Union[ObjectReference, _Mapping]] = ...) -> None: ...

class Attachments(_message.Message):
    __slots__ = ("all",)
    ALL_FIELD_NUMBER: _ClassVar[int]
    all: _containers.RepeatedCompositeFieldContainer[Attachment]
    def __init__(self, all: _Optional[_Iterable[_Union[Attachment, _Mapping]]] = ...) -> None: ...

class UploadObjectRequest(_message.Message):
    __slots__ = ("begin", "chunk", "finish")
    class Begin(_message.Message):
        __slots__ = ("queue", "sha256", "size", "upload")
        QUEUE_FIELD_NUMBER: _ClassVar[int]
        SHA256_FIELD_NUMBER: _ClassVar[int]
        SIZE_FIELD_NUMBER: _ClassVar[int]
        UPLOAD_FIELD_NUMBER: _ClassVar[int]
        queue: str
        sha256: str
        size: int
        upload: str
        def __init__(self, queue: _Optional[str] = ..., sha256: _Optional[str] = ..., size: _Optional[int] = ..., upload: _Optional[str] = ...) -> None: ...
    class Chunk(_message.Message):
        __slots__ = ("at", "data")
        AT_FIELD_NUMBER: _ClassVar[int]
        DATA_FIELD_NUMBER: _ClassVar[int]
        at: int
        data: bytes
        def __init__(self, at: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...
    class Finish(_message.Message):
        __slots__ = ("sha256",)
        SHA256_FIELD_NUMBER: _ClassVar[int]
        sha256: str
        def __init__(self, sha256: _Optional[str] = ...) -> None: ...
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    begin: UploadObjectRequest.Begin
    chunk: UploadObjectRequest.Chunk
    finish: UploadObjectRequest.Finish
    def __init__(self, begin: _Optional[_Union[UploadObjectRequest.Begin, _Mapping]] = ..., chunk: _Optional[_Union[UploadObjectRequest.Chunk, _Mapping]] = ..., finish: _Optional[_Union[UploadObjectRequest.Finish, _Mapping]] = ...) -> None: ...

class UploadObjectResponse(_message.Message):
    __slots__ = ("upload", "received", "done", "digest_first")
    UPLOAD_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIRST_FIELD_NUMBER: _ClassVar[int]
    upload: str
    received: int
    done: bool
    digest_first: bool
    def __init__(self, upload: _Optional[str] = ..., received: _Optional[int] = ..., done: _Optional[bool] = ..., digest_first: _Optional[bool] = ...) -> None: ...

class DownloadObjectRequest(_message.Message):
    __slots__ = ("queue", "sha256", "size", "start", "end")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    queue: str
    sha256: str
    size: int
    start: int
    end: int
    def __init__(self, queue: _Optional[str] = ..., sha256: _Optional[str] = ..., size: _Optional[int] = ..., start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class DownloadObjectResponse(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class PushRequest(_message.Message):
    __slots__ = ("queue", "producer", "sequence", "expected_offset", "stage", "pushes", "timeout_seconds", "objects", "elements", "arrow", "padding")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    PUSHES_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    ARROW_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    queue: str
    producer: str
    sequence: int
    expected_offset: int
    stage: Stage
    pushes: _containers.RepeatedCompositeFieldContainer[PushRequest]
    timeout_seconds: float
    objects: Attachments
    elements: Elements
    arrow: ArrowBatch
    padding: bytes
    def __init__(self, queue: _Optional[str] = ..., producer: _Optional[str] = ..., sequence: _Optional[int] = ..., expected_offset: _Optional[int] = ..., stage: _Optional[_Union[Stage, str]] = ..., pushes: _Optional[_Iterable[_Union[PushRequest, _Mapping]]] = ..., timeout_seconds: _Optional[float] = ..., objects: _Optional[_Union[Attachments, _Mapping]] = ..., elements: _Optional[_Union[Elements, _Mapping]] = ..., arrow: _Optional[_Union[ArrowBatch, _Mapping]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class Receipt(_message.Message):
    __slots__ = ("first_offset", "count", "timestamp_us", "stage", "duplicate")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    count: int
    timestamp_us: int
    stage: Stage
    duplicate: bool
    def __init__(self, first_offset: _Optional[int] = ..., count: _Optional[int] = ..., timestamp_us: _Optional[int] = ..., stage: _Optional[_Union[Stage, str]] = ..., duplicate: _Optional[bool] = ...) -> None: ...

class PushResponse(_message.Message):
    __slots__ = ("receipt", "owner")
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    receipt: Receipt
    owner: str
    def __init__(self, receipt: _Optional[_Union[Receipt, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class PushResult(_message.Message):
    __slots__ = ("receipt", "error")
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    receipt: Receipt
    error: Error
    def __init__(self, receipt: _Optional[_Union[Receipt, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class PushStreamResponse(_message.Message):
    __slots__ = ("results", "several", "owner")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    SEVERAL_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[PushResult]
    several: bool
    owner: str
    def __init__(self, results: _Optional[_Iterable[_Union[PushResult, _Mapping]]] = ..., several: _Optional[bool] = ..., owner: _Optional[str] = ...) -> None: ...

class PopRequest(_message.Message):
    __slots__ = ("subscriber", "max", "wait_seconds", "position", "form")
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    subscriber: str
    max: int
    wait_seconds: float
    position: int
    form: Form
    def __init__(self, subscriber: _Optional[str] = ..., max: _Optional[int] = ..., wait_seconds: _Optional[float] = ..., position: _Optional[int] = ..., form: _Optional[_Union[Form, str]] = ...) -> None: ...

class PopResponse(_message.Message):
    __slots__ = ("position", "next", "elements", "arrow", "padding", "owner")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    ARROW_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    position: int
    next: int
    elements: Elements
    arrow: ArrowBatch
    padding: bytes
    owner: str
    def __init__(self, position: _Optional[int] = ..., next: _Optional[int] = ..., elements: _Optional[_Union[Elements, _Mapping]] = ..., arrow: _Optional[_Union[ArrowBatch, _Mapping]] = ..., padding: _Optional[bytes] = ..., owner: _Optional[str] = ...) -> None: ...

class NumberedPop(_message.Message):
    __slots__ = ("id", "pop")
    ID_FIELD_NUMBER: _ClassVar[int]
    POP_FIELD_NUMBER: _ClassVar[int]
    id: int
    pop: PopRequest
    def __init__(self, id: _Optional[int] = ..., pop: _Optional[_Union[PopRequest, _Mapping]] = ...) -> None: ...

class PopStreamRequest(_message.Message):
    __slots__ = ("pops",)
    POPS_FIELD_NUMBER: _ClassVar[int]
    pops: _containers.RepeatedCompositeFieldContainer[NumberedPop]
    def __init__(self, pops: _Optional[_Iterable[_Union[NumberedPop, _Mapping]]] = ...) -> None: ...

class PopResult(_message.Message):
    __slots__ = ("id", "popped", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    POPPED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: int
    popped: PopResponse
    error: Error
    def __init__(self, id: _Optional[int] = ..., popped: _Optional[_Union[PopResponse, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class PopStreamResponse(_message.Message):
    __slots__ = ("results", "padding")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[PopResult]
    padding: bytes
    def __init__(self, results: _Optional[_Iterable[_Union[PopResult, _Mapping]]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class PeekRequest(_message.Message):
    __slots__ = ("subscriber", "max", "wait_seconds", "form")
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    subscriber: str
    max: int
    wait_seconds: float
    form: Form
    def __init__(self, subscriber: _Optional[str] = ..., max: _Optional[int] = ..., wait_seconds: _Optional[float] = ..., form: _Optional[_Union[Form, str]] = ...) -> None: ...

class PeekResponse(_message.Message):
    __slots__ = ("position", "next", "elements", "arrow", "padding", "owner")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    ARROW_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    position: int
    next: int
    elements: Elements
    arrow: ArrowBatch
    padding: bytes
    owner: str
    def __init__(self, position: _Optional[int] = ..., next: _Optional[int] = ..., elements: _Optional[_Union[Elements, _Mapping]] = ..., arrow: _Optional[_Union[ArrowBatch, _Mapping]] = ..., padding: _Optional[bytes] = ..., owner: _Optional[str] = ...) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ("start", "credit", "confirm")
    START_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    start: SubscribeStart
    credit: Credit
    confirm: Confirmation
    def __init__(self, start: _Optional[_Union[SubscribeStart, _Mapping]] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ..., confirm: _Optional[_Union[Confirmation, _Mapping]] = ...) -> None: ...

class SubscribeStart(_message.Message):
    __slots__ = ("subscriber", "form", "credit", "batch_elements", "resume")
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    BATCH_ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    subscriber: str
    form: Form
    credit: Credit
    batch_elements: int
    resume: Resume
    def __init__(self, subscriber: _Optional[str] = ..., form: _Optional[_Union[Form, str]] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ..., batch_elements: _Optional[int] = ..., resume: _Optional[_Union[Resume, _Mapping]] = ...) -> None: ...

class Resume(_message.Message):
    __slots__ = ("confirmed", "confirm", "next")
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    confirmed: int
    confirm: int
    next: int
    def __init__(self, confirmed: _Optional[int] = ..., confirm: _Optional[int] = ..., next: _Optional[int] = ...) -> None: ...

class Credit(_message.Message):
    __slots__ = ("elements", "bytes")
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    elements: int
    bytes: int
    def __init__(self, elements: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class Confirmation(_message.Message):
    __slots__ = ("offset", "generation")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    offset: int
    generation: int
    def __init__(self, offset: _Optional[int] = ..., generation: _Optional[int] = ...) -> None: ...

class SubscribeResponse(_message.Message):
    __slots__ = ("position", "next", "generation", "confirmed", "bytes", "elements", "arrow", "padding", "owner")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    ARROW_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    position: int
    next: int
    generation: int
    confirmed: int
    bytes: int
    elements: Elements
    arrow: ArrowBatch
    padding: bytes
    owner: str
    def __init__(self, position: _Optional[int] = ..., next: _Optional[int] = ..., generation: _Optional[int] = ..., confirmed: _Optional[int] = ..., bytes: _Optional[int] = ..., elements: _Optional[_Union[Elements, _Mapping]] = ..., arrow: _Optional[_Union[ArrowBatch, _Mapping]] = ..., padding: _Optional[bytes] = ..., owner: _Optional[str] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("queue", "start", "end", "follow", "form")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    queue: str
    start: str
    end: str
    follow: bool
    form: Form
    def __init__(self, queue: _Optional[str] = ..., start: _Optional[str] = ..., end: _Optional[str] = ..., follow: _Optional[bool] = ..., form: _Optional[_Union[Form, str]] = ...) -> None: ...

class ReadResponse(_message.Message):
    __slots__ = ("start_offset", "end_offset", "next", "elements", "arrow", "padding", "owner")
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    ARROW_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    start_offset: int
    end_offset: int
    next: int
    elements: Elements
    arrow: ArrowBatch
    padding: bytes
    owner: str
    def __init__(self, start_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., next: _Optional[int] = ..., elements: _Optional[_Union[Elements, _Mapping]] = ..., arrow: _Optional[_Union[ArrowBatch, _Mapping]] = ..., padding: _Optional[bytes] = ..., owner: _Optional[str] = ...) -> None: ...

class Block(_message.Message):
    __slots__ = ("id", "first_offset", "last_offset", "count", "kind", "loaded", "min_timestamp_us", "max_timestamp_us", "raw_bytes", "stored_bytes", "sha256", "key", "subscribers")
    ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LOADED_FIELD_NUMBER: _ClassVar[int]
    MIN_TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    MAX_TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    RAW_BYTES_FIELD_NUMBER: _ClassVar[int]
    STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBERS_FIELD_NUMBER: _ClassVar[int]
    id: int
    first_offset: int
    last_offset: int
    count: int
    kind: BlockKind
    loaded: bool
    min_timestamp_us: int
    max_timestamp_us: int
    raw_bytes: int
    stored_bytes: int
    sha256: str
    key: str
    subscribers: int
    def __init__(self, id: _Optional[int] = ..., first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ..., count: _Optional[int] = ..., kind: _Optional[_Union[BlockKind, str]] = ..., loaded: _Optional[bool] = ..., min_timestamp_us: _Optional[int] = ..., max_timestamp_us: _Optional[int] = ..., raw_bytes: _Optional[int] = ..., stored_bytes: _Optional[int] = ..., sha256: _Optional[str] = ..., key: _Optional[str] = ..., subscribers: _Optional[int] = ...) -> None: ...

class ListBlocksRequest(_message.Message):
    __slots__ = ("queue", "page_size", "page_token")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    queue: str
    page_size: int
    page_token: str
    def __init__(self, queue: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListBlocksResponse(_message.Message):
    __slots__ = ("blocks", "next_page_token", "owner")
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    blocks: _containers.RepeatedCompositeFieldContainer[Block]
    next_page_token: str
    owner: str
    def __init__(self, blocks: _Optional[_Iterable[_Union[Block, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...

class RetryBackoff(_message.Message):
    __slots__ = ("base", "factor", "max", "jitter")
    BASE_FIELD_NUMBER: _ClassVar[int]
    FACTOR_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    JITTER_FIELD_NUMBER: _ClassVar[int]
    base: float
    factor: float
    max: float
    jitter: float
    def __init__(self, base: _Optional[float] = ..., factor: _Optional[float] = ..., max: _Optional[float] = ..., jitter: _Optional[float] = ...) -> None: ...

class GroupSettings(_message.Message):
    __slots__ = ("driver", "ttr", "ttl", "delay", "priority", "max_attempts", "on_exhausted", "backoff", "capacity", "per_key", "rate")
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    TTR_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    ON_EXHAUSTED_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    PER_KEY_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    driver: str
    ttr: float
    ttl: float
    delay: float
    priority: int
    max_attempts: int
    on_exhausted: OnExhausted
    backoff: RetryBackoff
    capacity: int
    per_key: int
    rate: float
    def __init__(self, driver: _Optional[str] = ..., ttr: _Optional[float] = ..., ttl: _Optional[float] = ..., delay: _Optional[float] = ..., priority: _Optional[int] = ..., max_attempts: _Optional[int] = ..., on_exhausted: _Optional[_Union[OnExhausted, str]] = ..., backoff: _Optional[_Union[RetryBackoff, _Mapping]] = ..., capacity: _Optional[int] = ..., per_key: _Optional[int] = ..., rate: _Optional[float] = ...) -> None: ...

class Group(_message.Message):
    __slots__ = ("id", "name", "queue", "settings", "start", "first", "created_us", "paused", "waiting", "tasks", "resolved")
    class TasksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    queue: str
    settings: GroupSettings
    start: str
    first: int
    created_us: int
    paused: bool
    waiting: int
    tasks: _containers.ScalarMap[str, int]
    resolved: Resolved
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., queue: _Optional[str] = ..., settings: _Optional[_Union[GroupSettings, _Mapping]] = ..., start: _Optional[str] = ..., first: _Optional[int] = ..., created_us: _Optional[int] = ..., paused: _Optional[bool] = ..., waiting: _Optional[int] = ..., tasks: _Optional[_Mapping[str, int]] = ..., resolved: _Optional[_Union[Resolved, _Mapping]] = ...) -> None: ...

class CreateGroupRequest(_message.Message):
    __slots__ = ("queue", "name", "settings", "start")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    queue: str
    name: str
    settings: GroupSettings
    start: str
    def __init__(self, queue: _Optional[str] = ..., name: _Optional[str] = ..., settings: _Optional[_Union[GroupSettings, _Mapping]] = ..., start: _Optional[str] = ...) -> None: ...

class CreateGroupResponse(_message.Message):
    __slots__ = ("group", "owner")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    group: Group
    owner: str
    def __init__(self, group: _Optional[_Union[Group, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class GetGroupRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class GetGroupResponse(_message.Message):
    __slots__ = ("group", "owner")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    group: Group
    owner: str
    def __init__(self, group: _Optional[_Union[Group, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class ListGroupsRequest(_message.Message):
    __slots__ = ("queue", "page_size", "page_token")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    queue: str
    page_size: int
    page_token: str
    def __init__(self, queue: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListGroupsResponse(_message.Message):
    __slots__ = ("groups", "next_page_token", "owner")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[Group]
    next_page_token: str
    owner: str
    def __init__(self, groups: _Optional[_Iterable[_Union[Group, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...

class UpdateGroupRequest(_message.Message):
    __slots__ = ("group", "settings", "cleared")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    CLEARED_FIELD_NUMBER: _ClassVar[int]
    group: str
    settings: GroupSettings
    cleared: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, group: _Optional[str] = ..., settings: _Optional[_Union[GroupSettings, _Mapping]] = ..., cleared: _Optional[_Iterable[str]] = ...) -> None: ...

class UpdateGroupResponse(_message.Message):
    __slots__ = ("group", "owner")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    group: Group
    owner: str
    def __init__(self, group: _Optional[_Union[Group, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class DeleteGroupRequest(_message.Message):
    __slots__ = ("group", "force")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    group: str
    force: bool
    def __init__(self, group: _Optional[str] = ..., force: _Optional[bool] = ...) -> None: ...

class DeleteGroupResponse(_message.Message):
    __slots__ = ("owner",)
    OWNER_FIELD_NUMBER: _ClassVar[int]
    owner: str
    def __init__(self, owner: _Optional[str] = ...) -> None: ...

class PauseGroupRequest(_message.Message):
    __slots__ = ("group", "resume")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    group: str
    resume: bool
    def __init__(self, group: _Optional[str] = ..., resume: _Optional[bool] = ...) -> None: ...

class PauseGroupResponse(_message.Message):
    __slots__ = ("group", "owner")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    group: Group
    owner: str
    def __init__(self, group: _Optional[_Union[Group, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class SeekGroupRequest(_message.Message):
    __slots__ = ("group", "start", "clamp", "dry_run")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    CLAMP_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    group: str
    start: str
    clamp: bool
    dry_run: bool
    def __init__(self, group: _Optional[str] = ..., start: _Optional[str] = ..., clamp: _Optional[bool] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class SeekGroupResponse(_message.Message):
    __slots__ = ("group", "owner")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    group: Group
    owner: str
    def __init__(self, group: _Optional[_Union[Group, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class TakeRequest(_message.Message):
    __slots__ = ("group", "max", "wait_seconds", "session", "form", "ttr", "keys", "stage", "worker")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    TTR_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    group: str
    max: int
    wait_seconds: float
    session: str
    form: Form
    ttr: float
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    stage: Stage
    worker: str
    def __init__(self, group: _Optional[str] = ..., max: _Optional[int] = ..., wait_seconds: _Optional[float] = ..., session: _Optional[str] = ..., form: _Optional[_Union[Form, str]] = ..., ttr: _Optional[float] = ..., keys: _Optional[_Iterable[bytes]] = ..., stage: _Optional[_Union[Stage, str]] = ..., worker: _Optional[str] = ...) -> None: ...

class TakeResponse(_message.Message):
    __slots__ = ("attempts", "deadlines_us", "priorities", "elements", "arrow", "padding", "owner")
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    DEADLINES_US_FIELD_NUMBER: _ClassVar[int]
    PRIORITIES_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    ARROW_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    attempts: _containers.RepeatedScalarFieldContainer[int]
    deadlines_us: _containers.RepeatedScalarFieldContainer[int]
    priorities: _containers.RepeatedScalarFieldContainer[int]
    elements: Elements
    arrow: ArrowBatch
    padding: bytes
    owner: str
    def __init__(self, attempts: _Optional[_Iterable[int]] = ..., deadlines_us: _Optional[_Iterable[int]] = ..., priorities: _Optional[_Iterable[int]] = ..., elements: _Optional[_Union[Elements, _Mapping]] = ..., arrow: _Optional[_Union[ArrowBatch, _Mapping]] = ..., padding: _Optional[bytes] = ..., owner: _Optional[str] = ...) -> None: ...

class ChangeTasksRequest(_message.Message):
    __slots__ = ("group", "verb", "ids", "attempts", "session", "delay", "priority", "seconds", "reason", "again")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    VERB_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    group: str
    verb: TaskVerb
    ids: _containers.RepeatedScalarFieldContainer[int]
    attempts: _containers.RepeatedScalarFieldContainer[int]
    session: str
    delay: float
    priority: int
    seconds: float
    reason: str
    again: bool
    def __init__(self, group: _Optional[str] = ..., verb: _Optional[_Union[TaskVerb, str]] = ..., ids: _Optional[_Iterable[int]] = ..., attempts: _Optional[_Iterable[int]] = ..., session: _Optional[str] = ..., delay: _Optional[float] = ..., priority: _Optional[int] = ..., seconds: _Optional[float] = ..., reason: _Optional[str] = ..., again: _Optional[bool] = ...) -> None: ...

class TaskError(_message.Message):
    __slots__ = ("id", "kind", "message", "state")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    id: int
    kind: ErrorKind
    message: str
    state: TaskState
    def __init__(self, id: _Optional[int] = ..., kind: _Optional[_Union[ErrorKind, str]] = ..., message: _Optional[str] = ..., state: _Optional[_Union[TaskState, str]] = ...) -> None: ...

class ChangeTasksResponse(_message.Message):
    __slots__ = ("changed", "errors", "states", "owner")
    class StatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    changed: int
    errors: _containers.RepeatedCompositeFieldContainer[TaskError]
    states: _containers.ScalarMap[str, int]
    owner: str
    def __init__(self, changed: _Optional[int] = ..., errors: _Optional[_Iterable[_Union[TaskError, _Mapping]]] = ..., states: _Optional[_Mapping[str, int]] = ..., owner: _Optional[str] = ...) -> None: ...

class KickTasksRequest(_message.Message):
    __slots__ = ("group", "count")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    group: str
    count: int
    def __init__(self, group: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class KickTasksResponse(_message.Message):
    __slots__ = ("count", "owner")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    count: int
    owner: str
    def __init__(self, count: _Optional[int] = ..., owner: _Optional[str] = ...) -> None: ...

class PurgeGroupRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class PurgeGroupResponse(_message.Message):
    __slots__ = ("count", "owner")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    count: int
    owner: str
    def __init__(self, count: _Optional[int] = ..., owner: _Optional[str] = ...) -> None: ...

class ReleaseAllTasksRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class ReleaseAllTasksResponse(_message.Message):
    __slots__ = ("count", "owner")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    count: int
    owner: str
    def __init__(self, count: _Optional[int] = ..., owner: _Optional[str] = ...) -> None: ...

class CompleteTasksRequest(_message.Message):
    __slots__ = ("change", "pushes", "padding")
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    PUSHES_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    change: ChangeTasksRequest
    pushes: _containers.RepeatedCompositeFieldContainer[PushRequest]
    padding: bytes
    def __init__(self, change: _Optional[_Union[ChangeTasksRequest, _Mapping]] = ..., pushes: _Optional[_Iterable[_Union[PushRequest, _Mapping]]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class CompleteTasksResponse(_message.Message):
    __slots__ = ("outcomes", "receipts", "owner")
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    outcomes: ChangeTasksResponse
    receipts: _containers.RepeatedCompositeFieldContainer[Receipt]
    owner: str
    def __init__(self, outcomes: _Optional[_Union[ChangeTasksResponse, _Mapping]] = ..., receipts: _Optional[_Iterable[_Union[Receipt, _Mapping]]] = ..., owner: _Optional[str] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("id", "state", "attempt", "priority", "key", "value", "text", "headers", "session", "worker", "created_us", "until_us", "reason")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    UNTIL_US_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: int
    state: TaskState
    attempt: int
    priority: int
    key: bytes
    value: bytes
    text: bool
    headers: _containers.ScalarMap[str, bytes]
    session: str
    worker: str
    created_us: int
    until_us: int
    reason: str
    def __init__(self, id: _Optional[int] = ..., state: _Optional[_Union[TaskState, str]] = ..., attempt: _Optional[int] = ..., priority: _Optional[int] = ..., key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., text: _Optional[bool] = ..., headers: _Optional[_Mapping[str, bytes]] = ..., session: _Optional[str] = ..., worker: _Optional[str] = ..., created_us: _Optional[int] = ..., until_us: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class PeekTaskRequest(_message.Message):
    __slots__ = ("group", "id")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    group: str
    id: int
    def __init__(self, group: _Optional[str] = ..., id: _Optional[int] = ...) -> None: ...

class PeekTaskResponse(_message.Message):
    __slots__ = ("task", "owner")
    TASK_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    task: Task
    owner: str
    def __init__(self, task: _Optional[_Union[Task, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class ListTasksRequest(_message.Message):
    __slots__ = ("group", "state", "page_size", "page_token")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    group: str
    state: TaskState
    page_size: int
    page_token: str
    def __init__(self, group: _Optional[str] = ..., state: _Optional[_Union[TaskState, str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListTasksResponse(_message.Message):
    __slots__ = ("tasks", "next_page_token", "owner")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[Task]
    next_page_token: str
    owner: str
    def __init__(self, tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...

class GetGroupStatisticsRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class GetGroupStatisticsResponse(_message.Message):
    __slots__ = ("tasks", "calls", "oldest_ready_seconds", "oldest_taken_seconds", "rates", "owner")
    class TasksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class CallsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class RatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    TASKS_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    OLDEST_READY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    OLDEST_TAKEN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    RATES_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.ScalarMap[str, int]
    calls: _containers.ScalarMap[str, int]
    oldest_ready_seconds: float
    oldest_taken_seconds: float
    rates: _containers.ScalarMap[str, float]
    owner: str
    def __init__(self, tasks: _Optional[_Mapping[str, int]] = ..., calls: _Optional[_Mapping[str, int]] = ..., oldest_ready_seconds: _Optional[float] = ..., oldest_taken_seconds: _Optional[float] = ..., rates: _Optional[_Mapping[str, float]] = ..., owner: _Optional[str] = ...) -> None: ...

class TasksAtRequest(_message.Message):
    __slots__ = ("group", "time_us", "form")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TIME_US_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    group: str
    time_us: int
    form: Form
    def __init__(self, group: _Optional[str] = ..., time_us: _Optional[int] = ..., form: _Optional[_Union[Form, str]] = ...) -> None: ...

class TaskMoment(_message.Message):
    __slots__ = ("task", "state", "attempt", "since_us", "worker", "reason")
    TASK_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SINCE_US_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    task: int
    state: TaskState
    attempt: int
    since_us: int
    worker: str
    reason: str
    def __init__(self, task: _Optional[int] = ..., state: _Optional[_Union[TaskState, str]] = ..., attempt: _Optional[int] = ..., since_us: _Optional[int] = ..., worker: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class TasksAtResponse(_message.Message):
    __slots__ = ("tasks", "arrow", "owner")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    ARROW_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[TaskMoment]
    arrow: ArrowBatch
    owner: str
    def __init__(self, tasks: _Optional[_Iterable[_Union[TaskMoment, _Mapping]]] = ..., arrow: _Optional[_Union[ArrowBatch, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class AttachSession(_message.Message):
    __slots__ = ("session", "ttr")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TTR_FIELD_NUMBER: _ClassVar[int]
    session: str
    ttr: float
    def __init__(self, session: _Optional[str] = ..., ttr: _Optional[float] = ...) -> None: ...

class Session(_message.Message):
    __slots__ = ("id", "ttr")
    ID_FIELD_NUMBER: _ClassVar[int]
    TTR_FIELD_NUMBER: _ClassVar[int]
    id: str
    ttr: float
    def __init__(self, id: _Optional[str] = ..., ttr: _Optional[float] = ...) -> None: ...

class NumberedWork(_message.Message):
    __slots__ = ("id", "attach", "take", "change")
    ID_FIELD_NUMBER: _ClassVar[int]
    ATTACH_FIELD_NUMBER: _ClassVar[int]
    TAKE_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    id: int
    attach: AttachSession
    take: TakeRequest
    change: ChangeTasksRequest
    def __init__(self, id: _Optional[int] = ..., attach: _Optional[_Union[AttachSession, _Mapping]] = ..., take: _Optional[_Union[TakeRequest, _Mapping]] = ..., change: _Optional[_Union[ChangeTasksRequest, _Mapping]] = ...) -> None: ...

class WorkRequest(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[NumberedWork]
    def __init__(self, requests: _Optional[_Iterable[_Union[NumberedWork, _Mapping]]] = ...) -> None: ...

class WorkResult(_message.Message):
    __slots__ = ("id", "taken", "error", "changed", "attached")
    ID_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    id: int
    taken: TakeResponse
    error: Error
    changed: ChangeTasksResponse
    attached: Session
    def __init__(self, id: _Optional[int] = ..., taken: _Optional[_Union[TakeResponse, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., changed: _Optional[_Union[ChangeTasksResponse, _Mapping]] = ..., attached: _Optional[_Union[Session, _Mapping]] = ...) -> None: ...

class WorkResponse(_message.Message):
    __slots__ = ("results", "padding")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[WorkResult]
    padding: bytes
    def __init__(self, results: _Optional[_Iterable[_Union[WorkResult, _Mapping]]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class QueryRequest(_message.Message):
    __slots__ = ("query", "params", "timeout_seconds")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    query: str
    params: bytes
    timeout_seconds: float
    def __init__(self, query: _Optional[str] = ..., params: _Optional[bytes] = ..., timeout_seconds: _Optional[float] = ...) -> None: ...

class QueryResponse(_message.Message):
    __slots__ = ("ipc",)
    IPC_FIELD_NUMBER: _ClassVar[int]
    ipc: bytes
    def __init__(self, ipc: _Optional[bytes] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("kind", "message", "position", "first", "next", "owner", "retry_after_seconds", "key", "block")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_SECONDS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    kind: ErrorKind
    message: str
    position: int
    first: int
    next: int
    owner: str
    retry_after_seconds: float
    key: str
    block: int
    def __init__(self, kind: _Optional[_Union[ErrorKind, str]] = ..., message: _Optional[str] = ..., position: _Optional[int] = ..., first: _Optional[int] = ..., next: _Optional[int] = ..., owner: _Optional[str] = ..., retry_after_seconds: _Optional[float] = ..., key: _Optional[str] = ..., block: _Optional[int] = ...) -> None: ...

class Load(_message.Message):
    __slots__ = ("history_bytes", "memory_bytes", "traffic", "shards")
    HISTORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    history_bytes: int
    memory_bytes: int
    traffic: float
    shards: int
    def __init__(self, history_bytes: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., traffic: _Optional[float] = ..., shards: _Optional[int] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("id", "address", "alive", "draining", "journal", "load", "version", "uptime_seconds")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    UPTIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    id: str
    address: str
    alive: bool
    draining: bool
    journal: JournalKind
    load: Load
    version: str
    uptime_seconds: float
    def __init__(self, id: _Optional[str] = ..., address: _Optional[str] = ..., alive: _Optional[bool] = ..., draining: _Optional[bool] = ..., journal: _Optional[_Union[JournalKind, str]] = ..., load: _Optional[_Union[Load, _Mapping]] = ..., version: _Optional[str] = ..., uptime_seconds: _Optional[float] = ...) -> None: ...

class Shard(_message.Message):
    __slots__ = ("queue", "first_offset", "next_offset", "node", "epoch", "load")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    queue: str
    first_offset: int
    next_offset: int
    node: str
    epoch: int
    load: Load
    def __init__(self, queue: _Optional[str] = ..., first_offset: _Optional[int] = ..., next_offset: _Optional[int] = ..., node: _Optional[str] = ..., epoch: _Optional[int] = ..., load: _Optional[_Union[Load, _Mapping]] = ...) -> None: ...

class Move(_message.Message):
    __slots__ = ("shard", "to")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    shard: Shard
    to: str
    def __init__(self, shard: _Optional[_Union[Shard, _Mapping]] = ..., to: _Optional[str] = ...) -> None: ...

class NodeShare(_message.Message):
    __slots__ = ("node", "before", "after")
    NODE_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    node: str
    before: float
    after: float
    def __init__(self, node: _Optional[str] = ..., before: _Optional[float] = ..., after: _Optional[float] = ...) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListNodesResponse(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ...) -> None: ...

class DrainNodeRequest(_message.Message):
    __slots__ = ("node", "undo")
    NODE_FIELD_NUMBER: _ClassVar[int]
    UNDO_FIELD_NUMBER: _ClassVar[int]
    node: str
    undo: bool
    def __init__(self, node: _Optional[str] = ..., undo: _Optional[bool] = ...) -> None: ...

class DrainNodeResponse(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: Node
    def __init__(self, node: _Optional[_Union[Node, _Mapping]] = ...) -> None: ...

class Lost(_message.Message):
    __slots__ = ("queue", "first_offset")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    queue: str
    first_offset: int
    def __init__(self, queue: _Optional[str] = ..., first_offset: _Optional[int] = ...) -> None: ...

class TakeOverRequest(_message.Message):
    __slots__ = ("node", "accept_loss", "dry_run")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_LOSS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    node: str
    accept_loss: bool
    dry_run: bool
    def __init__(self, node: _Optional[str] = ..., accept_loss: _Optional[bool] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class TakeOverResponse(_message.Message):
    __slots__ = ("queues", "lost")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedScalarFieldContainer[str]
    lost: _containers.RepeatedCompositeFieldContainer[Lost]
    def __init__(self, queues: _Optional[_Iterable[str]] = ..., lost: _Optional[_Iterable[_Union[Lost, _Mapping]]] = ...) -> None: ...

class ListShardsRequest(_message.Message):
    __slots__ = ("queue", "node", "page_size", "page_token")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    queue: str
    node: str
    page_size: int
    page_token: str
    def __init__(self, queue: _Optional[str] = ..., node: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListShardsResponse(_message.Message):
    __slots__ = ("shards", "next_page_token")
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    shards: _containers.RepeatedCompositeFieldContainer[Shard]
    next_page_token: str
    def __init__(self, shards: _Optional[_Iterable[_Union[Shard, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class PlanMovesRequest(_message.Message):
    __slots__ = ("leaving",)
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    leaving: str
    def __init__(self, leaving: _Optional[str] = ...) -> None: ...

class PlanMovesResponse(_message.Message):
    __slots__ = ("moves", "shares")
    MOVES_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    moves: _containers.RepeatedCompositeFieldContainer[Move]
    shares: _containers.RepeatedCompositeFieldContainer[NodeShare]
    def __init__(self, moves: _Optional[_Iterable[_Union[Move, _Mapping]]] = ..., shares: _Optional[_Iterable[_Union[NodeShare, _Mapping]]] = ...) -> None: ...

class PrepareMoveRequest(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    def __init__(self, queue: _Optional[str] = ...) -> None: ...

class PrepareMoveResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MoveShardRequest(_message.Message):
    __slots__ = ("queue", "first_offset", "to")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    queue: str
    first_offset: int
    to: str
    def __init__(self, queue: _Optional[str] = ..., first_offset: _Optional[int] = ..., to: _Optional[str] = ...) -> None: ...

class MoveShardResponse(_message.Message):
    __slots__ = ("shard",)
    SHARD_FIELD_NUMBER: _ClassVar[int]
    shard: Shard
    def __init__(self, shard: _Optional[_Union[Shard, _Mapping]] = ...) -> None: ...

class SplitQueueRequest(_message.Message):
    __slots__ = ("queue", "parts", "dry_run")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    queue: str
    parts: int
    dry_run: bool
    def __init__(self, queue: _Optional[str] = ..., parts: _Optional[int] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class SplitQueueResponse(_message.Message):
    __slots__ = ("shards",)
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    shards: _containers.RepeatedCompositeFieldContainer[Shard]
    def __init__(self, shards: _Optional[_Iterable[_Union[Shard, _Mapping]]] = ...) -> None: ...

class Key(_message.Message):
    __slots__ = ("id", "name", "scopes", "created_us", "quota")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    scopes: _containers.RepeatedScalarFieldContainer[str]
    created_us: int
    quota: Quota
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., scopes: _Optional[_Iterable[str]] = ..., created_us: _Optional[int] = ..., quota: _Optional[_Union[Quota, _Mapping]] = ...) -> None: ...

class Quota(_message.Message):
    __slots__ = ("elements_per_second", "bytes_per_second", "streams", "queues")
    ELEMENTS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    elements_per_second: float
    bytes_per_second: float
    streams: int
    queues: int
    def __init__(self, elements_per_second: _Optional[float] = ..., bytes_per_second: _Optional[float] = ..., streams: _Optional[int] = ..., queues: _Optional[int] = ...) -> None: ...

class CreateKeyRequest(_message.Message):
    __slots__ = ("name", "scopes", "quota")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    name: str
    scopes: _containers.RepeatedScalarFieldContainer[str]
    quota: Quota
    def __init__(self, name: _Optional[str] = ..., scopes: _Optional[_Iterable[str]] = ..., quota: _Optional[_Union[Quota, _Mapping]] = ...) -> None: ...

class CreateKeyResponse(_message.Message):
    __slots__ = ("key", "text")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    key: Key
    text: str
    def __init__(self, key: _Optional[_Union[Key, _Mapping]] = ..., text: _Optional[str] = ...) -> None: ...

class ListKeysRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListKeysResponse(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[Key]
    def __init__(self, keys: _Optional[_Iterable[_Union[Key, _Mapping]]] = ...) -> None: ...

class RevokeKeyRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class RevokeKeyResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
