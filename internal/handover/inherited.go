package handover

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"

	"github.com/haul-project/haul/tcp"
	"github.com/haul-project/haul/udp"
)

// maxPassed is the most sockets taken from systemd. A unit lists one for each
// address.
const maxPassed = 64

// Inherited are the sockets from systemd and from a predecessor that no service has
// taken yet.
type Inherited struct {
	config   udp.Config
	datagram []*udp.Conn
	stream   []Socket
	metrics  net.Listener // nil if there is none
}

// Inherit adopts the sockets that systemd opened for this process by socket units
// (sd_listen_fds(3)), and those of a predecessor, which it closes if it fails. The config
// is for datagram sockets; served are the services of this process, such as [TFTP]. A
// socket for another is an error. unix are those that may have unix sockets. Call it once: it
// removes from the environment what systemd set.
func Inherit(c udp.Config, served, unix []string, predecessor []Socket) (_ *Inherited, err error) {
	p := &Inherited{config: c}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if err := p.activate(len(unix) > 0); err != nil {
		CloseSockets(predecessor)
		return nil, err
	}
	if len(p.datagram) > 0 && !slices.Contains(served, TFTP) {
		err = errors.New("systemd passed a datagram socket, which is for TFTP, and that is not served: add --tftp :69, or take ListenDatagram= out of the socket unit")
	}
	if err := errors.Join(err, assign(p.stream, served, unix)); err != nil {
		CloseSockets(predecessor)
		return nil, err
	}
	return p, p.adopt(predecessor)
}

// activate adopts systemd's sockets: those for datagrams, and the listening ones, by the
// names that their units give them (FileDescriptorName=).
func (p *Inherited) activate(takesUnix bool) error {
	files := activation.Files(true)
	// So many are a mistake. Some may be descriptors of our own, so none is closed.
	if len(files) > maxPassed {
		return fmt.Errorf("systemd passed %d sockets; at most %d are taken", len(files), maxPassed)
	}
	defer func() {
		for _, f := range files {
			if !slices.ContainsFunc(p.stream, func(s Socket) bool { return s.File == f }) {
				_ = f.Close() // its connection has a duplicate
			}
		}
	}()
	for _, f := range files {
		// FileListener takes stream sockets, and refuses all others.
		if l, err := net.FileListener(f); err == nil {
			_ = l.Close()
			if network := l.Addr().Network(); network != "tcp" && (network != "unix" || !takesUnix) {
				return fmt.Errorf("%s: a stream socket that is not TCP; in the socket unit, ListenStream=22 is what SFTP needs; "+
					"a path is for HTTP with --http-proxy unix, or for SFTP with --sftp-proxy unix", f.Name())
			}
			p.stream = append(p.stream, Socket{f.Name(), f})
			continue
		}
		conn, err := udp.FromFile(f, p.config)
		if err != nil {
			return fmt.Errorf("%w; in the socket unit, ListenDatagram=69 is what TFTP needs, and ListenStream=22 what SFTP does", err)
		}
		p.datagram = append(p.datagram, conn)
	}
	return nil
}

// adopt takes the sockets of a predecessor, and closes those that it does not keep as
// files.
func (p *Inherited) adopt(sockets []Socket) error {
	defer func() { CloseSockets(sockets) }()
	for i, s := range sockets {
		switch s.Service {
		case TFTP:
			conn, err := udp.FromFile(s.File, p.config)
			if err != nil {
				return err
			}
			p.datagram = append(p.datagram, conn)
		case SFTP, HTTP, HTTPS:
			p.stream = append(p.stream, s)
			sockets[i].File = nil // stays open
		case Metrics:
			l, err := net.FileListener(s.File)
			if err != nil {
				return fmt.Errorf("adopt socket %s: %w", s.File.Name(), err)
			}
			p.metrics = l
		default:
			return fmt.Errorf("a predecessor handed over a socket for %q, which this version of haul does not serve", s.Service)
		}
	}
	return nil
}

// assign finds the service that each stream socket from systemd is for, and puts its
// name in place of the one from the socket unit. A unit need not name the only one that
// is served.
func assign(streams []Socket, services, unix []string) error {
	served := slices.DeleteFunc(slices.Clone(services), func(s string) bool { return s == TFTP })
	for i, s := range streams {
		switch {
		case slices.Contains(served, s.Service):
		case len(served) == 0:
			return errors.New("systemd passed a stream socket, not a datagram socket: in the socket unit, ListenDatagram=69 is what TFTP needs; for SFTP add --sftp :22, for HTTP --http :80")
		case len(served) > 1 || s.Service == SFTP || s.Service == HTTP || s.Service == HTTPS:
			return fmt.Errorf("systemd passed a stream socket by the name of %s, and what is served is %s: in the socket unit, say which it is for, as FileDescriptorName=%s",
				s.Service, strings.Join(served, ", "), served[0])
		default:
			streams[i].Service = served[0]
		}
		if name := streams[i].Service; !slices.Contains(unix, name) && isUnix(s.File) {
			return fmt.Errorf("systemd passed the socket %s for %s, and it is a unix socket: for %[2]s, the socket unit needs a port in ListenStream=; a path needs --%s-proxy unix",
				s.File.Name(), strings.ToUpper(name), strings.TrimSuffix(name, "s"))
		}
	}
	return nil
}

// isUnix reports whether a stream socket listens at a path.
func isUnix(f *os.File) bool {
	l, err := net.FileListener(f)
	if err != nil {
		return false
	}
	defer l.Close() // a duplicate, which leaves the path alone
	return l.Addr().Network() == "unix"
}

// Datagram takes the sockets for TFTP.
func (p *Inherited) Datagram() []*udp.Conn {
	conns := p.datagram
	p.datagram = nil
	return conns
}

// Stream takes the listening sockets for a service over TCP.
func (p *Inherited) Stream(service string, o tcp.Options) ([]*tcp.Socket, error) {
	var files []*os.File
	p.stream = slices.DeleteFunc(p.stream, func(s Socket) bool {
		if s.Service == service {
			files = append(files, s.File)
		}
		return s.Service == service
	})
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	return tcp.FromFiles(files, o)
}

// Metrics takes the listening socket for metrics, or nil.
func (p *Inherited) Metrics() net.Listener {
	l := p.metrics
	p.metrics = nil
	return l
}

// Close closes the sockets that were not taken.
func (p *Inherited) Close() {
	for _, c := range p.datagram {
		_ = c.Close()
	}
	CloseSockets(p.stream)
	if p.metrics != nil {
		_ = p.metrics.Close()
	}
}
