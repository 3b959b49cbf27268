//! Health checks and reflection.

use std::collections::BTreeSet;

use tokio::time::timeout;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::{Instance, SOON, channel, is_problem};

#[tokio::test]
async fn health_follows_readiness_with_and_without_tokens() {
    let mut instance = Instance::start().await;
    instance.admin().await;
    let mut client = HealthClient::new(channel(instance.address).await);
    let ask = |service: &str| HealthCheckRequest { service: service.to_owned() };
    for service in ["", "keymill.v1.Keymill"] {
        let answer = client.check(ask(service)).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }
    let unknown = client.check(ask("keymill.v2.Keymill")).await;
    is_problem(unknown, Code::NotFound, "unknown_service", "keymill.v1.Keymill");
    let mut watched = client.watch(ask("")).await.unwrap().into_inner();
    let next = watched.message().await.unwrap().unwrap();
    assert_eq!(next.status(), ServingStatus::Serving);
    let mut nobody = client.watch(ask("nobody")).await.unwrap().into_inner();
    let next = nobody.message().await.unwrap().unwrap();
    assert_eq!(next.status(), ServingStatus::ServiceUnknown);
    instance.stop.take().unwrap().send(()).unwrap();
    let next = timeout(SOON, watched.message()).await.expect("it hears of the stop");
    assert_eq!(next.unwrap().unwrap().status(), ServingStatus::NotServing);
    let end = timeout(SOON, watched.message()).await.expect("it ends");
    is_problem(end, Code::Unavailable, "stopping", "");
    timeout(SOON, instance.ended).await.expect("the server ends").unwrap();
}

#[tokio::test]
async fn the_contract_is_found_by_reflection_in_both_versions() {
    let instance = Instance::start().await;
    instance.admin().await;
    let expected: BTreeSet<String> = {
        use tonic_reflection::pb::v1::ServerReflectionRequest;
        use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
        use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
        use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
        let mut client = ServerReflectionClient::new(channel(instance.address).await);
        let ask =
            |what| ServerReflectionRequest { host: String::new(), message_request: Some(what) };
        let asks = tokio_stream::iter([
            ask(MessageRequest::ListServices(String::new())),
            ask(MessageRequest::FileContainingSymbol("keymill.v1.Keymill.TakeStream".to_owned())),
        ]);
        let mut answers = client.server_reflection_info(asks).await.unwrap().into_inner();
        let first = answers.message().await.unwrap().unwrap().message_response.unwrap();
        let MessageResponse::ListServicesResponse(services) = first else { panic!("{first:?}") };
        let second = answers.message().await.unwrap().unwrap().message_response.unwrap();
        let MessageResponse::FileDescriptorResponse(files) = second else { panic!("{second:?}") };
        assert!(!files.file_descriptor_proto.is_empty());
        services.service.into_iter().map(|service| service.name).collect()
    };
    for name in ["keymill.v1.Keymill", "grpc.health.v1.Health"] {
        assert!(expected.contains(name), "{expected:?}");
    }
    use tonic_reflection::pb::v1alpha::ServerReflectionRequest;
    use tonic_reflection::pb::v1alpha::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1alpha::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1alpha::server_reflection_response::MessageResponse;
    let mut client = ServerReflectionClient::new(channel(instance.address).await);
    let ask = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answers = client.server_reflection_info(tokio_stream::once(ask)).await.unwrap();
    let first = answers.into_inner().message().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(services) = first else { panic!("{first:?}") };
    assert!(services.service.iter().any(|service| service.name == "keymill.v1.Keymill"));
}

#[tokio::test]
async fn a_server_that_stops_ends_reflection_that_is_idle() {
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
    let mut instance = Instance::start().await;
    let mut client = ServerReflectionClient::new(channel(instance.address).await);
    let (asks, messages) = tokio::sync::mpsc::channel(1);
    let unknown = MessageRequest::FileContainingSymbol("no.such.Symbol".to_owned());
    let ask = ServerReflectionRequest { host: String::new(), message_request: Some(unknown) };
    asks.send(ask).await.unwrap();
    let messages = tokio_stream::wrappers::ReceiverStream::new(messages);
    let mut answers = client.server_reflection_info(messages).await.unwrap().into_inner();
    // What is not there is an answer, and not the end of the stream.
    let first = answers.message().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ErrorResponse(error) = first else { panic!("{first:?}") };
    assert_eq!(error.error_code, Code::NotFound as i32);
    let began = std::time::Instant::now();
    instance.stop.take().unwrap().send(()).unwrap();
    let end = timeout(SOON, answers.message()).await.expect("it ends");
    is_problem(end, Code::Unavailable, "stopping", "another");
    timeout(SOON, &mut instance.ended).await.expect("the server ends").unwrap();
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
}
