//! X.509 certificates as far as webpki does not read them: version 1, common names, and authorities that
//! serve as servers.

use jiff::{civil::DateTime, tz::TimeZone};
use tokio_rustls::rustls::{
    CertificateError,
    crypto::WebPkiSupportedAlgorithms,
    pki_types::{DnsName, SignatureVerificationAlgorithm, TrustAnchor, UnixTime},
};

// Tags of DER.
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;

// Object identifiers, and the encoding of version 3.
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 29, 17];
const NAME_CONSTRAINTS: &[u8] = &[0x55, 29, 30];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 29, 37];
const SERVER_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
const VERSION_3: &[u8] = &[INTEGER, 1, 2];

/// A certificate of version 1 or 3. The fields are contents in DER.
pub(super) struct Certificate<'a> {
    signed: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
    issuer: &'a [u8],
    validity: &'a [u8],
    subject: &'a [u8],
    key: &'a [u8],
    /// Object identifier and value of each extension; none in version 1.
    extensions: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Certificate<'a> {
    /// Parses a certificate in DER; None if it is malformed.
    pub(super) fn parse(der: &'a [u8]) -> Option<Self> {
        let mut outer = DerReader(der);
        let mut certificate = DerReader(outer.expect(SEQUENCE)?);
        let (tag, content, signed) = certificate.next()?;
        let algorithm = certificate.expect(SEQUENCE)?;
        let signature = bits(certificate.expect(BIT_STRING)?)?;
        let mut fields = DerReader(content);
        let version = fields.optional(VERSION);
        fields.expect(INTEGER)?;
        let algorithm_again = fields.expect(SEQUENCE)?;
        let [issuer, validity, subject, key] = [(); 4].map(|()| fields.expect(SEQUENCE));
        let extensions = match version {
            None => Vec::new(),
            Some(VERSION_3) => extensions(&mut fields)?,
            Some(_) => return None,
        };
        let is_complete = [outer, certificate, fields].iter().all(|reader| reader.0.is_empty());
        (tag == SEQUENCE && algorithm == algorithm_again && is_complete).then_some(Self {
            signed,
            algorithm,
            signature,
            issuer: issuer?,
            validity: validity?,
            subject: subject?,
            key: key?,
            extensions,
        })
    }

    /// Checks that one of `roots` signed the certificate itself, and that it is valid for servers and `now`.
    /// The name is not checked, nor are unknown critical extensions. None if no root signed it.
    pub(super) fn verify_issued_by(
        &self,
        roots: &[TrustAnchor<'_>],
        now: UnixTime,
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> Option<Result<(), CertificateError>> {
        // Constraints of an authority would have to be applied to the common name, too.
        let issuers = roots
            .iter()
            .filter(|root| root.name_constraints.is_none() && root.subject.as_ref() == self.issuer)
            .map(|root| root.subject_public_key_info.as_ref());
        let is_signed = |key| {
            let usable = algorithms.all.iter().filter(|it| it.signature_alg_id().as_ref() == self.algorithm);
            verify_signature(key, usable, self.signed, self.signature)
        };
        issuers.into_iter().any(is_signed).then(|| {
            self.check_validity(now)?;
            if self.serves() { Ok(()) } else { Err(CertificateError::InvalidPurpose) }
        })
    }

    /// True if `signature` of `message` was made with the certificate's key and one of `algorithms`.
    pub(super) fn has_signed<'b>(
        &self,
        algorithms: impl IntoIterator<Item = &'b &'b dyn SignatureVerificationAlgorithm>,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        verify_signature(self.key, algorithms, message, signature)
    }

    /// True if the only common name is `host`, or `*.` and all of it after its first label, and alternative
    /// names are missing.
    pub(super) fn is_commonly_named(&self, host: &DnsName<'_>) -> bool {
        if self.extension(SUBJECT_ALT_NAME).is_some() {
            return false;
        }
        let names = self.common_names().unwrap_or_default();
        let [name] = names[..] else { return false };
        let (host, domain) = (host.as_ref(), host.as_ref().split_once('.').map(|(_, domain)| domain));
        match name.strip_prefix("*.") {
            Some(wildcard) => domain.is_some_and(|it| it.contains('.') && it.eq_ignore_ascii_case(wildcard)),
            None => name.eq_ignore_ascii_case(host),
        }
    }

    /// True if the certificate limits the names in those that it issues.
    pub(super) fn constrains_names(&self) -> bool {
        self.extension(NAME_CONSTRAINTS).is_some()
    }

    fn common_names(&self) -> Option<Vec<&'a str>> {
        let mut names = Vec::new();
        let mut sets = DerReader(self.subject);
        while !sets.0.is_empty() {
            let mut attributes = DerReader(sets.expect(SET)?);
            while !attributes.0.is_empty() {
                let mut attribute = DerReader(attributes.expect(SEQUENCE)?);
                let kind = attribute.expect(OBJECT_IDENTIFIER)?;
                let (tag, value, _) = attribute.next()?;
                if kind == COMMON_NAME {
                    let is_text = matches!(tag, UTF8_STRING | PRINTABLE_STRING | IA5_STRING);
                    names.push(std::str::from_utf8(value).ok().filter(|_| is_text)?);
                }
            }
        }
        Some(names)
    }

    fn extension(&self, kind: &[u8]) -> Option<&'a [u8]> {
        self.extensions.iter().find(|(found, _)| *found == kind).map(|(_, value)| *value)
    }

    /// False if the certificate names its purposes, and servers are none of them.
    fn serves(&self) -> bool {
        let Some(value) = self.extension(EXTENDED_KEY_USAGE) else { return true };
        let mut purposes = DerReader(DerReader(value).expect(SEQUENCE).unwrap_or_default());
        std::iter::from_fn(|| purposes.expect(OBJECT_IDENTIFIER)).any(|purpose| purpose == SERVER_AUTH)
    }

    fn check_validity(&self, now: UnixTime) -> Result<(), CertificateError> {
        let mut times = DerReader(self.validity);
        let (Some(from), Some(until)) = (times.next().and_then(time), times.next().and_then(time)) else {
            return Err(CertificateError::BadEncoding);
        };
        if now < from {
            return Err(CertificateError::NotValidYetContext { time: now, not_before: from });
        }
        if now > until {
            return Err(CertificateError::ExpiredContext { time: now, not_after: until });
        }
        Ok(())
    }
}

/// Object identifier and value of each extension. `fields` begins after the key of the certificate.
fn extensions<'a>(fields: &mut DerReader<'a>) -> Option<Vec<(&'a [u8], &'a [u8])>> {
    let Some(content) = fields.optional(EXTENSIONS) else { return Some(Vec::new()) };
    let mut list = DerReader(DerReader(content).expect(SEQUENCE)?);
    let mut found = Vec::new();
    while !list.0.is_empty() {
        let mut extension = DerReader(list.expect(SEQUENCE)?);
        let kind = extension.expect(OBJECT_IDENTIFIER)?;
        let (mut tag, mut value, _) = extension.next()?;
        // The flag of a critical extension comes first.
        if tag != OCTET_STRING {
            (tag, value, _) = extension.next()?;
        }
        (tag == OCTET_STRING).then(|| found.push((kind, value)))?;
    }
    Some(found)
}

/// Verifies `signature` with `key`, the content of a SubjectPublicKeyInfo, and those of `algorithms` that
/// suit it.
fn verify_signature<'b>(
    key: &[u8],
    algorithms: impl IntoIterator<Item = &'b &'b dyn SignatureVerificationAlgorithm>,
    message: &[u8],
    signature: &[u8],
) -> bool {
    let mut fields = DerReader(key);
    let (Some(kind), Some(key)) = (fields.expect(SEQUENCE), fields.expect(BIT_STRING).and_then(bits)) else {
        return false;
    };
    algorithms
        .into_iter()
        .filter(|algorithm| algorithm.public_key_alg_id().as_ref() == kind)
        .any(|algorithm| algorithm.verify_signature(key, message, signature).is_ok())
}

/// Bytes of a bit string; None if it has unused bits.
fn bits(content: &[u8]) -> Option<&[u8]> {
    content.strip_prefix(&[0])
}

/// Reads a time of the form that certificates must have: seconds, and UTC.
fn time((tag, text, _): (u8, &[u8], &[u8])) -> Option<UnixTime> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let century = match (tag, text.get(..2)?.parse::<u8>().ok()?) {
        (UTC_TIME, 50..) => "19",
        (UTC_TIME, _) => "20",
        (GENERALIZED_TIME, _) => "",
        _ => return None,
    };
    let text = format!("{century}{text}");
    let (date, time) = text.split_at_checked(8).filter(|_| text.len() == 14)?;
    let time: DateTime = format!("{date}T{time}").parse().ok()?;
    let seconds = time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second();
    Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds.try_into().ok()?)))
}

/// Reads one element of DER after the other.
struct DerReader<'a>(&'a [u8]);

impl<'a> DerReader<'a> {
    /// Tag and content of the next element, and the whole of it; None if it is malformed.
    fn next(&mut self) -> Option<(u8, &'a [u8], &'a [u8])> {
        let [tag, length, rest @ ..] = self.0 else { return None };
        let (length, rest) = match (length, rest) {
            (0..=0x7f, _) => (u16::from(*length), rest),
            (0x81, [length, rest @ ..]) => (u16::from(*length), rest),
            (0x82, [high, low, rest @ ..]) => (u16::from_be_bytes([*high, *low]), rest),
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length.into())?;
        let whole = &self.0[..self.0.len() - rest.len()];
        self.0 = rest;
        Some((*tag, content, whole))
    }

    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _, _)| *found == tag).map(|(_, content, _)| content)
    }

    fn optional(&mut self, tag: u8) -> Option<&'a [u8]> {
        (self.0.first() == Some(&tag)).then(|| self.expect(tag)).flatten()
    }
}
