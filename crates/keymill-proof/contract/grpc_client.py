"""What a program does over gRPC that knows nothing but the address of the server.

`check` runs it with host and port. The messages are those that the server describes by reflection, and the library is
not the one that the server is built with.
"""

import sys

import grpc
from google.protobuf import descriptor_pool, message_factory
from google.rpc import error_details_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_status import rpc_status

SERVICE = "keymill.v1.Keymill"


class Service:
    """The methods of a service, as the server describes them."""

    def __init__(self, channel, pool, name):
        self.methods = {}
        for method in pool.FindServiceByName(name).methods:
            answer = message_factory.GetMessageClass(method.output_type)
            ask = message_factory.GetMessageClass(method.input_type)
            is_stream = method.client_streaming and method.server_streaming
            connect = channel.stream_stream if is_stream else channel.unary_unary
            call = connect(
                f"/{name}/{method.name}",
                request_serializer=ask.SerializeToString,
                response_deserializer=answer.FromString,
            )
            self.methods[method.name] = (ask, call)

    def message(self, method, **fields):
        return self.methods[method][0](**fields)

    def call(self, method, metadata=(), **fields):
        return self.methods[method][1](self.message(method, **fields), timeout=20, metadata=metadata)


def take(service, space, count):
    """A take, repeated while the first keys are on their way."""
    while True:
        try:
            return list(service.call("Take", space=space, count=count).keys)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                raise


def details_of(error):
    """The details of an error: reason, domain, whether it says when to try again, and the ID of the request."""
    status = rpc_status.from_call(error)
    assert status, f"no details: {error}"
    info, request = error_details_pb2.ErrorInfo(), error_details_pb2.RequestInfo()
    retries = False
    for detail in status.details:
        detail.Unpack(info) or detail.Unpack(request)
        retries = retries or detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR)
    return info.reason, info.domain, retries, request.request_id


def check_error(service, method, code, reason, **fields):
    try:
        service.call(method, **fields)
    except grpc.RpcError as error:
        found, domain, retries, request_id = details_of(error)
        assert error.code() == code, error
        assert (found, domain, retries) == (reason, "keymill", False), error
        names = dict(error.initial_metadata()) | dict(error.trailing_metadata())
        assert request_id and names.get("x-request-id") == request_id, names
        return
    raise AssertionError(f"{method} {fields} is not refused")


def connect(address):
    """A channel, and what the server says of itself over it."""
    channel = grpc.insecure_channel(address)
    return channel, ProtoReflectionDescriptorDatabase(channel)


def main():
    channel, reflection = connect(sys.argv[1])
    services = reflection.get_services()
    assert {SERVICE, "grpc.health.v1.Health"} <= set(services), services
    pool = descriptor_pool.DescriptorPool(reflection)
    health = Service(channel, pool, "grpc.health.v1.Health")
    assert health.call("Check", service=SERVICE).status == 1, "it is not serving"

    service = Service(channel, pool, SERVICE)
    assert len(service.methods) >= 12, service.methods
    made = service.call("EnsureSpace", space="by-grpc", settings={"length": 9})
    assert made.made and made.space.settings.length == 9, made
    keys = take(service, "by-grpc", 1) + take(service, "by-grpc", 5_000)
    assert len(set(keys)) == 5_001 and all(len(key) == 9 for key in keys)

    # A stream: credit, and as many keys.
    ask, stream = service.methods["TakeStream"]
    batches = stream(iter([ask(space="by-grpc", credit=1_000), ask(credit=2_000)]), timeout=20)
    for batch in batches:
        text, length = batch.keys.decode("ascii"), batch.key_length
        keys += [text[at : at + length] for at in range(0, len(text), length or 1)]
    assert len(set(keys)) == 8_001, len(keys)

    assert service.call("Explain", space="by-grpc", key=keys[0]).lease.holder.id
    check_error(service, "Take", grpc.StatusCode.NOT_FOUND, "unknown_space", space="nowhere")
    check_error(service, "Take", grpc.StatusCode.INVALID_ARGUMENT, "bad_count", space="by-grpc", count=0)
    different = {"length": 8}
    check_error(
        service,
        "EnsureSpace",
        grpc.StatusCode.ALREADY_EXISTS,
        "different_definition",
        space="by-grpc",
        settings=different,
    )


if __name__ == "__main__":
    main()
