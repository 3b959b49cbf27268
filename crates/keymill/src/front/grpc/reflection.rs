//! Server reflection: the contract, for tools such as grpcurl. Version 1, and the version before it, which many still use:
//! on the wire both are the same.
//!
//! It needs no token, so nobody may hold much by it. What an answer says is shared by all answers (`descriptors`); what
//! is made for each is its head, which waits for the budget like a piece of any answer.
//!
//! # Invariants
//!
//! - Of a stream, at most two answers are unsent, and one question waits; the rest is unread, as flow control bounds it.
//! - A stream ends when the server stops, and when its next question does not come in time.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response};
use keymill_engine::operations::turn::turn;
use prost::Message;
use prost::encoding::{encode_varint, encoded_len_varint};
use tokio::time::{sleep_until, timeout};
use tonic::Code;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{
    ErrorResponse, ExtensionNumberResponse, ListServiceResponse, ServerReflectionRequest,
    ServerReflectionResponse, ServiceResponse,
};

use super::Asked;
use super::admission::decoded;
use super::answers::{self, Steps, begin_frame, end_frame_before};
use super::descriptors::DESCRIPTORS;
use super::messages::Messages;
use super::status;
use super::take_stream::stopped;
use crate::front::http::budget::Account;
use crate::front::http::request_body::BODY_TIME_MAX;
use crate::front::http::{Body, Http, Problem};

/// The longest message of a client: a name. It is repeated in the answer, with its host once more, and both fit a piece.
const REQUEST_LEN_MAX: usize = 2 << 10;
/// The field of an answer that has files, and the field of these that has one.
const FILES: u8 = 4 << 3 | 2;
const FILE: u8 = 1 << 3 | 2;

/// Begins a stream.
pub(super) fn begin(http: &Http, asked: &Asked, request: Request<Incoming>) -> Response<Body> {
    let account = http.state.budget.open(http.state.line.clone());
    let questions = Questions { messages: Messages::new(request.into_body()), account, file: None };
    answers::stream(Reflecting { http: http.clone(), asked: asked.clone(), questions })
}

/// A stream, between two of its frames.
struct Reflecting {
    http: Http,
    asked: Asked,
    questions: Questions<Incoming>,
}

impl Steps for Reflecting {
    async fn step(mut self) -> (Frame<Bytes>, Option<Reflecting>) {
        let deadline = self.asked.deadline;
        let passed = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let next = tokio::select! {
            next = self.questions.next() => next,
            problem = stopped(&self.http) => Err(problem),
            () = passed => Err(Problem::deadline_exceeded()),
        };
        match next {
            Ok(Some(part)) => (Frame::data(part), Some(self)),
            Ok(None) => (Frame::trailers(status::ok()), None),
            Err(problem) => (Frame::trailers(status::headers(&self.asked.status(&problem))), None),
        }
    }
}

/// The questions of a stream, answered one after the other.
struct Questions<B> {
    messages: Messages<B>,
    account: Arc<Account>,
    /// What follows the head that was sent last.
    file: Option<Bytes>,
}

impl<B> Questions<B>
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    /// The next part of an answer; `None` behind the last.
    async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        if let Some(file) = self.file.take() {
            return Ok(Some(file));
        }
        let question = timeout(BODY_TIME_MAX, self.messages.next(REQUEST_LEN_MAX)).await;
        let Some(question) = question.map_err(|_| Problem::body_too_slow())?? else {
            return Ok(None);
        };
        // Not while it waits for the client: room that is reserved and holds nothing cannot be taken from anybody.
        let room = self.account.reserve(None).await;
        turn().await;
        let (head, file) = answer(decoded(question)?);
        self.file = file;
        Ok(Some(room.hold(head)))
    }
}

/// The answer to a question: its own bytes, and the file that follows them.
fn answer(question: ServerReflectionRequest) -> (Vec<u8>, Option<Bytes>) {
    let said = match &question.message_request {
        Some(MessageRequest::FileByFilename(name)) => {
            DESCRIPTORS.file(name).ok_or_else(|| error(Code::NotFound, "there is no such file"))
        }
        Some(MessageRequest::FileContainingSymbol(name)) => DESCRIPTORS
            .file_of(name)
            .ok_or_else(|| error(Code::NotFound, "there is no such symbol")),
        Some(MessageRequest::FileContainingExtension(_)) => {
            Err(error(Code::NotFound, "there are no extensions"))
        }
        Some(MessageRequest::AllExtensionNumbersOfType(name)) => {
            let none = ExtensionNumberResponse {
                base_type_name: name.clone(),
                extension_number: Vec::new(),
            };
            Err(MessageResponse::AllExtensionNumbersResponse(none))
        }
        Some(MessageRequest::ListServices(_)) => {
            let service = |name: &String| ServiceResponse { name: name.clone() };
            let service = DESCRIPTORS.services().iter().map(service).collect();
            Err(MessageResponse::ListServicesResponse(ListServiceResponse { service }))
        }
        None => Err(error(Code::InvalidArgument, "the message asks for nothing")),
    };
    let mut head = Vec::new();
    let start = begin_frame(&mut head);
    let (file, other) = match said {
        Ok(file) => (Some(file), None),
        Err(other) => (None, Some(other)),
    };
    let valid_host = question.host.clone();
    let answer = ServerReflectionResponse {
        valid_host,
        original_request: Some(question),
        message_response: other,
    };
    answer.encode_raw(&mut head);
    if let Some(file) = &file {
        // The last field, so that the file, which is shared, can follow as it is.
        let len = file.len() as u64;
        head.put_u8(FILES);
        encode_varint(1 + encoded_len_varint(len) as u64 + len, &mut head);
        head.put_u8(FILE);
        encode_varint(len, &mut head);
    }
    end_frame_before(&mut head, start, file.as_ref().map_or(0, Bytes::len));
    (head, file)
}

fn error(code: Code, says: &str) -> MessageResponse {
    let error_message = says.to_owned();
    MessageResponse::ErrorResponse(ErrorResponse { error_code: code as i32, error_message })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use http_body_util::Full;
    use tonic_reflection::pb::v1::FileDescriptorResponse;

    use super::*;
    use crate::front::grpc::answers::framed;
    use crate::front::grpc::messages::HEAD;
    use crate::front::http::budget::PIECE_BYTES;
    use crate::front::http::budget::{Budget, UNSENT_MIN};

    type Asking = http_body_util::combinators::BoxBody<Bytes, Infallible>;

    fn ask(what: MessageRequest) -> ServerReflectionRequest {
        ServerReflectionRequest { host: "h".to_owned(), message_request: Some(what) }
    }

    fn symbol(name: &str) -> ServerReflectionRequest {
        ask(MessageRequest::FileContainingSymbol(name.to_owned()))
    }

    fn questions(all: &[ServerReflectionRequest]) -> Questions<Full<Bytes>> {
        let bytes: Vec<u8> = all.iter().flat_map(framed).collect();
        let account = Budget::new(UNSENT_MIN).open(None);
        Questions { messages: Messages::new(Full::new(bytes.into())), account, file: None }
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_is_answered_when_the_answers_before_it_are_sent() {
        let mut questions = questions(&vec![symbol("keymill.v1.Keymill"); 30]);
        let mut unsent = Vec::new();
        let wait = Duration::from_secs(1);
        while let Ok(part) = timeout(wait, questions.next()).await {
            unsent.push(part.unwrap().unwrap());
        }
        // Two heads, each with the file that all answers share.
        assert_eq!(unsent.len(), 4, "of 30 answers");
        assert!(unsent.iter().step_by(2).all(|head| head.len() < 100));
        let files: Vec<_> = unsent.iter().skip(1).step_by(2).map(|file| file.as_ptr()).collect();
        assert_eq!(files[0], files[1], "a file is in memory once");
        unsent.clear();
        assert!(timeout(wait, questions.next()).await.is_ok(), "they were sent");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_whose_next_question_does_not_come_ends() {
        let silent = http_body_util::StreamBody::new(tokio_stream::pending::<
            Result<Frame<Bytes>, Infallible>,
        >());
        let account = Budget::new(UNSENT_MIN).open(None);
        let messages: Messages<Asking> = Messages::new(Asking::new(silent));
        let mut questions = Questions { messages, account, file: None };
        let end = timeout(2 * BODY_TIME_MAX, questions.next()).await.expect("it ends");
        assert_eq!(end.unwrap_err().code(), "body_too_slow");
    }

    #[test]
    fn an_answer_is_the_message_that_its_parts_make() {
        let all = [
            symbol("keymill.v1.Keymill"),
            symbol("nothing"),
            ask(MessageRequest::FileByFilename("keymill/v1/keymill.proto".to_owned())),
            ask(MessageRequest::FileByFilename("no.proto".to_owned())),
            ask(MessageRequest::AllExtensionNumbersOfType("x".to_owned())),
            ask(MessageRequest::ListServices(String::new())),
            ServerReflectionRequest::default(),
        ];
        for question in all {
            let (head, file) = answer(question.clone());
            let file = file.unwrap_or_default();
            let whole = [&head[..], &file[..]].concat();
            let len = u32::try_from(whole.len() - HEAD).unwrap();
            assert_eq!((whole[0], &whole[1..HEAD]), (0, &len.to_be_bytes()[..]));
            let answer = ServerReflectionResponse::decode(&whole[HEAD..]).unwrap();
            assert_eq!(answer.valid_host, question.host);
            assert_eq!(answer.original_request.as_ref(), Some(&question));
            let files = match answer.message_response.unwrap() {
                MessageResponse::FileDescriptorResponse(FileDescriptorResponse {
                    file_descriptor_proto,
                }) => file_descriptor_proto,
                _ => Vec::new(),
            };
            assert_eq!(files.concat(), file, "{question:?}");
        }
    }

    #[test]
    fn the_head_of_the_longest_question_fits_a_piece() {
        let host = "h".repeat(REQUEST_LEN_MAX);
        let (head, _) = answer(ServerReflectionRequest { host, message_request: None });
        assert!(head.len() <= PIECE_BYTES, "{}", head.len());
        let (head, _) =
            answer(ask(MessageRequest::AllExtensionNumbersOfType("x".repeat(REQUEST_LEN_MAX))));
        assert!(head.len() <= PIECE_BYTES, "{}", head.len());
    }
}
