//! Forge's way from number to key: a good mix of 64 bits, and then the rest of a division,
//! which is no bijection. Two numbers meet in one key long before the keys run out.
//!
//! The numbers are keymill's own, from a sequential space; only the last step is replaced. So
//! this needs a front of its own, as small as the harness allows.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;

use keymill_engine::Service;
use keymill_engine::operations::Space;
use keymill_engine::space::{Kind, SpaceSpec};
use tokio::net::TcpListener;
use tokio::runtime::Handle;

const NUMBERS: &str = "numbers";
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const LENGTH: u32 = 7;

/// Serves until the process is ended.
pub(crate) async fn run(
    service: &Service,
    listener: TcpListener,
    greet: impl FnOnce(),
) -> Result<(), Box<dyn Error>> {
    let wanted = SpaceSpec {
        kind: Some(Kind::Sequential),
        alphabet: Some("decimal".to_owned()),
        length: Some(0),
        ..SpaceSpec::default()
    };
    service.ensure_space(NUMBERS, &wanted).await?;
    let space = service.space(NUMBERS).await?;
    greet();
    loop {
        let (stream, _) = listener.accept().await?;
        let stream = stream.into_std()?;
        let (service, space, runtime) = (service.clone(), space.clone(), Handle::current());
        std::thread::spawn(move || {
            let front = Front { service, space, runtime };
            // A connection that breaks is the harness's doing.
            let _ = front.serve(&stream);
        });
    }
}

struct Front {
    service: Service,
    space: Arc<Space>,
    runtime: Handle,
}

impl Front {
    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream);
        while let Some((line, body_len)) = read_request(&mut reader)? {
            io::copy(&mut io::Read::take(&mut reader, body_len), &mut io::sink())?;
            let body = match count_of(&line) {
                Some(count) => self.take(count)?,
                // Whatever else is asked for, such as to make a space, is done already.
                None => Vec::new(),
            };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            let mut writer = stream;
            writer.write_all(&[head.as_bytes(), &body].concat())?;
        }
        Ok(())
    }

    fn take(&self, count: u32) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        let each = |number: &[u8]| {
            let number = std::str::from_utf8(number).map(str::parse);
            let number = number.expect("numbers are text").expect("and fit");
            body.extend(key(number));
            body.push(b'\n');
        };
        let taken = self.service.take(&self.space, count, "", each);
        self.runtime.block_on(taken).map_err(io::Error::other)?;
        Ok(body)
    }
}

/// The first line of a request and the length of its body.
fn read_request(reader: &mut impl BufRead) -> io::Result<Option<(String, u64)>> {
    let mut first = String::new();
    if reader.read_line(&mut first)? == 0 {
        return Ok(None);
    }
    let mut body_len = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim().split_once(':') {
            None => return Ok(Some((first, body_len))),
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                body_len = value.trim().parse().map_err(io::Error::other)?;
            }
            Some(_) => {}
        }
    }
}

fn count_of(request: &str) -> Option<u32> {
    if request.starts_with("GET /get-key") {
        return Some(1);
    }
    let (_, rest) = request.split_once("/keys?count=")?;
    rest.split(' ').next()?.parse().ok()
}

fn key(number: u64) -> [u8; LENGTH as usize] {
    let mut rest = splitmix64(number) % 62_u64.pow(LENGTH);
    let mut key = [0; LENGTH as usize];
    for place in key.iter_mut().rev() {
        let digit = usize::try_from(rest % 62).expect("it is below 62");
        *place = BASE62[digit];
        rest /= 62;
    }
    key
}

/// The mix of Steele, Lea and Flood's SplitMix64: a bijection of 64 bits.
fn splitmix64(number: u64) -> u64 {
    let mut mixed = number;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_to_come_twice_is_the_one_measured_on_forge() {
        let keys = || (0..537_051).map(key);
        let distinct: std::collections::HashSet<_> = keys().collect();
        assert_eq!(distinct.len(), 537_050);
        assert_eq!(keys().nth(537_050), keys().nth(329_622));
    }
}
