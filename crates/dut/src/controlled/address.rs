//! Where a switch is: what stands behind `openflow:`.
//!
//! `tcp:HOST:PORT`, `ssl:HOST:PORT` and `unix:PATH` are where the switch listens; at `ptcp:PORT[:HOST]`, `pssl:PORT[:HOST]` and
//! `punix:PATH` the lab does. Behind it, joined by `+`: `ports=FIRST/SECOND`, `replace`, and the files of [`FILES`] where it is
//! encrypted.

use super::encrypted::Encrypted;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;
use weir_tls::{Tls, TlsFiles};

/// How long one attempt to connect may take.
const ATTEMPT: Duration = Duration::from_secs(2);

/// Where the lab listens unless it is said.
const USUAL_HOST: &str = "127.0.0.1";

/// The lab's files of an encrypted connection, by the names that Open vSwitch's tools have for them.
const FILES: [&str; 3] = ["private-key", "certificate", "ca-cert"];

/// A switch as a plan names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) address: Address,
    /// The ports that meet the lab's, by number or name; none for the only two.
    pub(super) ports: Option<[String; 2]>,
    /// Whether entries of somebody else are set aside for as long as it is measured.
    pub(super) replace: bool,
    /// The lab's certificates, where the connection is encrypted.
    pub(super) tls: Option<TlsFiles>,
}

/// Where lab and switch meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// The switch listens at a host and port.
    Tcp(String),
    /// The switch listens at a path.
    Unix(PathBuf),
    /// The switch listens at a host and port, and speaks TLS.
    Ssl(String),
    /// The lab listens at a host and port.
    PassiveTcp(String),
    /// The lab listens at a host and port, and speaks TLS.
    PassiveSsl(String),
    /// The lab listens at a path.
    PassiveUnix(PathBuf),
}

impl Named {
    /// Reads what stands behind `openflow:`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split('+');
        let address = Address::parse(parts.next().unwrap_or_default())?;
        let mut named = Self { address, ports: None, replace: false, tls: None };
        let mut files: [Option<PathBuf>; FILES.len()] = Default::default();
        for setting in parts {
            match setting.split_once('=').unwrap_or((setting, "")) {
                (name, path) if FILES.contains(&name) => {
                    let file = files.iter_mut().zip(FILES).find(|(_, file)| *file == name);
                    if let Some((file, _)) = file.filter(|_| !path.is_empty()) {
                        *file = Some(path.into());
                    }
                }
                ("replace", "") => named.replace = true,
                ("ports", ports) => {
                    let two = ports.split_once('/').filter(|(a, b)| !a.is_empty() && !b.is_empty() && a != b);
                    let (first, second) =
                        two.ok_or_else(|| format!("`{setting}`: write two ports, such as `ports=1/2`"))?;
                    named.ports = Some([first.to_owned(), second.to_owned()]);
                }
                _ => {
                    return Err(format!(
                        "openflow has no setting `{setting}`; it has ports=FIRST/SECOND and replace, and of ssl and pssl \
                         {}=FILE, joined by `+`",
                        FILES.join("=FILE, ")
                    ));
                }
            }
        }
        named.tls = match (named.address.is_encrypted(), files) {
            (true, [Some(private_key), Some(certificate), Some(ca_cert)]) => {
                Some(TlsFiles { private_key, certificate, ca_cert })
            }
            (false, [None, None, None]) => None,
            (true, _) => {
                return Err(format!(
                    "openflow: {} is encrypted and takes the lab's certificates: add +{}=FILE, as of ovs-ofctl",
                    named.address,
                    FILES.join("=FILE+")
                ));
            }
            (false, _) => {
                return Err(format!(
                    "openflow: {} is not encrypted, so it takes no certificates; leave them out, or write ssl or pssl",
                    named.address
                ));
            }
        };
        Ok(named)
    }

    /// Begins to listen, where the switch connects; reads the certificates, where it is encrypted.
    pub(super) fn open(&self) -> io::Result<Meeting<'_>> {
        let tls = self.tls.as_ref().map(Tls::load).transpose().map_err(io::Error::other)?;
        Ok(Meeting { way: self.address.open()?, tls })
    }
}

impl Address {
    fn parse(text: &str) -> Result<Self, String> {
        let forms = "write tcp:HOST:PORT, ssl:HOST:PORT or unix:PATH where the switch listens, ptcp:PORT[:HOST], \
                     pssl:PORT[:HOST] or punix:PATH where it connects to the lab";
        let wrong = |why: &str| format!("openflow: `{text}` {why}; {forms}");
        let port = |port: &str| port.parse::<u16>().ok().filter(|port| *port > 0);
        match text.split_once(':') {
            Some((kind @ ("tcp" | "ssl"), place)) => match place.rsplit_once(':') {
                Some((host, number)) if !host.is_empty() && port(number).is_some() => Ok(match kind {
                    "tcp" => Self::Tcp(place.to_owned()),
                    _ => Self::Ssl(place.to_owned()),
                }),
                _ => Err(wrong("has no host and port")),
            },
            Some((kind @ ("ptcp" | "pssl"), place)) => {
                let (number, host) = place.split_once(':').unwrap_or((place, USUAL_HOST));
                let number = port(number).filter(|_| !host.is_empty()).ok_or_else(|| wrong("has no port"))?;
                Ok(match kind {
                    "ptcp" => Self::PassiveTcp(format!("{host}:{number}")),
                    _ => Self::PassiveSsl(format!("{host}:{number}")),
                })
            }
            Some(("unix" | "punix", "")) => Err(wrong("has no path")),
            Some(("unix", path)) => Ok(Self::Unix(path.into())),
            Some(("punix", path)) => Ok(Self::PassiveUnix(path.into())),
            _ => Err(wrong("is no place of a switch")),
        }
    }

    const fn is_encrypted(&self) -> bool {
        matches!(self, Self::Ssl(_) | Self::PassiveSsl(_))
    }

    /// What has to be connected, in words.
    pub(super) fn to_connect(&self) -> String {
        match self {
            Self::Tcp(_) | Self::Ssl(_) | Self::Unix(_) => {
                format!("the switch listens for controllers at {self}")
            }
            Self::PassiveTcp(place) => format!("the switch connects to its controller at tcp:{place}"),
            Self::PassiveSsl(place) => format!("the switch connects to its controller at ssl:{place}"),
            Self::PassiveUnix(path) => {
                format!("the switch connects to its controller at unix:{}", path.display())
            }
        }
    }

    fn open(&self) -> io::Result<Way<'_>> {
        Ok(match self {
            Self::Tcp(_) | Self::Ssl(_) | Self::Unix(_) => Way::Connects(self),
            Self::PassiveTcp(place) | Self::PassiveSsl(place) => {
                let listener = TcpListener::bind(place.as_str())?;
                listener.set_nonblocking(true)?;
                Way::Tcp(listener)
            }
            Self::PassiveUnix(path) => {
                // What a lab that was killed left behind answers nobody.
                if UnixStream::connect(path)
                    .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
                {
                    std::fs::remove_file(path)?;
                }
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Way::Unix(listener, path.clone())
            }
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(place) => write!(f, "tcp:{place}"),
            Self::Ssl(place) => write!(f, "ssl:{place}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::PassiveTcp(place) | Self::PassiveSsl(place) => {
                let kind = if self.is_encrypted() { "pssl" } else { "ptcp" };
                match place.rsplit_once(':') {
                    Some((host, port)) => write!(f, "{kind}:{port}:{host}"),
                    None => write!(f, "{kind}:{place}"),
                }
            }
            Self::PassiveUnix(path) => write!(f, "punix:{}", path.display()),
        }
    }
}

/// A connection on its way.
pub(super) struct Meeting<'a> {
    way: Way<'a>,
    tls: Option<Tls>,
}

enum Way<'a> {
    Connects(&'a Address),
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Meeting<'_> {
    /// The connection, if it is there; does not wait for a switch that connects. An error of the kind `InvalidData` is for good.
    pub(super) fn stream(&self) -> io::Result<Stream> {
        match (self.way.stream()?, &self.tls) {
            (Stream::Tcp(socket), Some(tls)) => {
                let tls = if matches!(self.way, Way::Connects(_)) { tls.connect() } else { tls.accept() };
                Encrypted::begin(socket, tls).map(Stream::Tls)
            }
            (stream, _) => Ok(stream),
        }
    }
}

impl Way<'_> {
    fn stream(&self) -> io::Result<Stream> {
        match self {
            Self::Connects(Address::Unix(path)) => Stream::unix(UnixStream::connect(path)?),
            Self::Connects(Address::Tcp(place) | Address::Ssl(place)) => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
                for address in place.to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, ATTEMPT) {
                        Ok(stream) => return Stream::tcp(stream),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
            Self::Connects(_) => Err(io::Error::other("the lab listens there")),
            Self::Tcp(listener) => Stream::tcp(listener.accept().map_err(nobody)?.0),
            Self::Unix(listener, _) => Stream::unix(listener.accept().map_err(nobody)?.0),
        }
    }
}

impl Drop for Way<'_> {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = std::fs::remove_file(path); // somebody may have been quicker
        }
    }
}

/// Nobody came yet, in words.
fn nobody(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(error.kind(), "nobody connected"),
        _ => error,
    }
}

/// A connection with a switch.
pub(super) enum Stream {
    Tcp(TcpStream),
    Tls(Encrypted),
    Unix(UnixStream),
}

impl Stream {
    fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    fn unix(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        Ok(Self::Unix(stream))
    }

    pub(super) fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            Self::Tls(stream) => stream.try_clone().map(Self::Tls),
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
        }
    }

    /// Ends it, whoever reads from it.
    pub(super) fn shutdown(&self) {
        // It may be closed already.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Tls(stream) => {
                stream.shutdown();
                Ok(())
            }
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(bytes),
            Self::Tls(stream) => stream.read(bytes),
            Self::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_settings_are_read_or_named() {
        let named = |text| Named::parse(text).unwrap();
        let plain = named("tcp:[::1]:6653");
        assert_eq!((plain.address, plain.replace), (Address::Tcp("[::1]:6653".to_owned()), false));
        let all = named("unix:/run/br.mgmt+ports=p0/7+replace");
        assert_eq!(all.address, Address::Unix("/run/br.mgmt".into()));
        assert_eq!((all.ports, all.replace), (Some(["p0", "7"].map(str::to_owned)), true));
        for (text, place) in [("ptcp:6653", "127.0.0.1:6653"), ("ptcp:6653:::", ":::6653")] {
            assert_eq!(named(text).address, Address::PassiveTcp(place.to_owned()));
        }
        let ssl = named("ssl:10.0.0.1:6653+private-key=/k.pem+certificate=c.pem+ca-cert=a.pem+ports=1/2");
        let files = ssl.tls.unwrap();
        assert_eq!(ssl.address, Address::Ssl("10.0.0.1:6653".to_owned()));
        assert_eq!((files.private_key, files.ca_cert), ("/k.pem".into(), "a.pem".into()));
        for (text, says) in [
            ("", "is no place"),
            ("tcp:host", "has no host and port"),
            ("tcp:host:0", "has no host and port"),
            ("ptcp:many", "has no port"),
            ("punix:", "has no path"),
            (
                "ssl:host:6653",
                "ssl:host:6653 is encrypted and takes the lab's certificates: add +private-key=FILE",
            ),
            ("pssl:6653+private-key=k+certificate=c", "+ca-cert=FILE"),
            ("ssl:h:1+private-key=+certificate=c+ca-cert=a", "takes the lab's certificates"),
            ("ssl:host", "has no host and port"),
            ("tcp:h:1+ca-cert=a", "tcp:h:1 is not encrypted"),
            ("tcp:h:1+ports=1", "write two ports"),
            ("tcp:h:1+ports=1/1", "write two ports"),
            ("tcp:h:1+clear", "no setting `clear`"),
        ] {
            let said = Named::parse(text).unwrap_err();
            assert!(said.contains(says), "{text}: {said}");
        }
    }

    #[test]
    fn a_place_is_shown_as_it_is_written() {
        for text in
            ["tcp:h:1", "unix:/a", "ptcp:6653:127.0.0.1", "punix:/a", "ssl:h:1", "pssl:6653:127.0.0.1"]
        {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
        let told = Named::parse("ptcp:6653").unwrap().address.to_connect();
        assert_eq!(told, "the switch connects to its controller at tcp:127.0.0.1:6653");
    }
}
