//! PandABox's TCP protocol, port 8889 (CONTRACT IP24). `TcpPcapIngester`. Every line of an arm is
//! an item.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use smallvec::smallvec;

use crate::{item::Item, machine::excerpt};

const TYP: &str = "PCAP_RAW";
/// First bytes of the client.
pub const HELLO: &[u8] = b"\n";
/// Expected answer of the box.
const WELCOME: &[u8] = b"OK\n";
const ARM: &[u8] = b"arm_time: ";
const END: &[u8] = b"END";
/// Longest line, bytes.
const LINE_MAX: usize = 1 << 20;
/// Longest header of an arm, bytes.
const HEADER_MAX: usize = 16 << 20;

/// Parser of one connection.
#[derive(Debug, Default)]
pub struct PandaBox {
    unread: BytesMut,
    phase: PandaBoxPhase,
    outside: u64,
}

#[derive(Debug, Default)]
enum PandaBoxPhase {
    #[default]
    Welcome,
    WaitArm,
    /// The header received so far.
    Header(BytesMut),
    Armed,
}

impl PandaBox {
    /// Processes received bytes and appends their items to `out`.
    ///
    /// # Errors
    /// The peer is not a PandABox, or a line is too long; the text says what to do. Close the
    /// connection then.
    pub fn feed(&mut self, bytes: &[u8], out: &mut VecDeque<Item>) -> Result<(), String> {
        let mut from = self.unread.len();
        self.unread.extend_from_slice(bytes);
        while let Some(at) = self.unread[from..].iter().position(|byte| *byte == b'\n') {
            let line = self.unread.split_to(from + at + 1);
            from = 0;
            self.line(&line, out)?;
        }
        if self.unread.len() > LINE_MAX {
            return Err(format!(
                "a line longer than {LINE_MAX} bytes: check that this is a PandABox's data port (8889)"
            ));
        }
        Ok(())
    }

    /// True once the peer has answered as a PandABox.
    pub fn is_welcome(&self) -> bool {
        !matches!(self.phase, PandaBoxPhase::Welcome)
    }

    /// True inside an arm, whose rest would be lost with the connection.
    pub fn is_armed(&self) -> bool {
        matches!(self.phase, PandaBoxPhase::Armed | PandaBoxPhase::Header(_))
    }

    /// Lines dropped between arms since the last call.
    pub fn take_outside(&mut self) -> u64 {
        std::mem::take(&mut self.outside)
    }

    fn line(&mut self, line: &[u8], out: &mut VecDeque<Item>) -> Result<(), String> {
        // Copied, since a short slice would keep the whole read buffer in memory.
        let item =
            |line| Item { typ: TYP.into(), frames: smallvec![Bytes::copy_from_slice(line)], number: None };
        match &mut self.phase {
            PandaBoxPhase::Welcome if line == WELCOME => self.phase = PandaBoxPhase::WaitArm,
            PandaBoxPhase::Welcome => {
                let shown = excerpt(line);
                return Err(format!(
                    "it answers `{shown}` instead of OK: check that this is a PandABox's data port (8889)"
                ));
            }
            PandaBoxPhase::WaitArm if line.starts_with(ARM) => {
                self.phase = PandaBoxPhase::Header(line.into())
            }
            PandaBoxPhase::WaitArm => self.outside += 1,
            PandaBoxPhase::Header(header) => {
                header.extend_from_slice(line);
                if header.len() > HEADER_MAX {
                    return Err(format!(
                        "a header longer than {HEADER_MAX} bytes: check that this is a PandABox's data port (8889)"
                    ));
                }
                if line.trim_ascii().is_empty() {
                    out.push_back(item(header));
                    self.phase = PandaBoxPhase::Armed;
                }
            }
            PandaBoxPhase::Armed => {
                out.push_back(item(line));
                if line.starts_with(END) {
                    self.phase = PandaBoxPhase::WaitArm;
                }
            }
        }
        Ok(())
    }
}
