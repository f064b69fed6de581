package handover

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/udp"
)

// maxPassed is the maximum number of sockets that are taken from systemd. A unit lists one socket
// for each address.
const maxPassed = 64

// Inherited holds the sockets from systemd and from a predecessor that no service has taken yet.
type Inherited struct {
	config udp.Config
	left   []*inherited
}

// An inherited is a socket or another file that another process has opened. A socket for TFTP has a
// conn. All others have a File.
type inherited struct {
	Socket
	at   net.Addr
	conn *udp.Conn
}

// Inherit adopts the sockets that systemd opened for this process by socket units
// (sd_listen_fds(3)), and the sockets of a predecessor. If it fails, it closes the predecessor's
// sockets. The config is for datagram sockets.
//
// served lists the services of this process, such as [TFTP]. A socket from systemd for another
// service is an error. A socket from a predecessor for another service is closed by Close. unix
// lists the services that may have unix sockets. Call Inherit once, since it removes systemd's
// variables from the environment.
func Inherit(c udp.Config, served, unix []string, predecessor []Socket) (_ *Inherited, err error) {
	p := &Inherited{config: c}
	defer func() {
		if err != nil {
			p.Close()
			CloseSockets(predecessor)
		}
	}()
	if err := p.activate(len(unix) > 0); err != nil {
		return nil, err
	}
	if p.hasDatagram() && !slices.Contains(served, TFTP) {
		err = failure.Text("systemd passed a datagram socket, which is for TFTP, and that is not served: add %s :69, or take ListenDatagram= out of the socket unit", failure.Flag(TFTP))
	}
	if err := errors.Join(err, assign(p.left, served, unix)); err != nil {
		return nil, err
	}
	for i, s := range predecessor {
		if err := p.adopt(s, served, unix); err != nil {
			return nil, err
		}
		predecessor[i].File = nil // p owns the file from now on
	}
	return p, nil
}

func (p *Inherited) hasDatagram() bool {
	return slices.ContainsFunc(p.left, func(s *inherited) bool { return s.conn != nil })
}

// activate adopts systemd's sockets: the sockets for datagrams, and the listening sockets, which
// have the names that their units give them (FileDescriptorName=).
func (p *Inherited) activate(takesUnix bool) error {
	files := activation.Files(true)
	// So many sockets must be a mistake. Some of the descriptors may be our own, so do not close
	// any of them.
	if len(files) > maxPassed {
		return fmt.Errorf("systemd passed %d sockets; at most %d are taken", len(files), maxPassed)
	}
	for i, f := range files {
		// FileListener refuses every socket that is not a stream socket.
		s, err := p.newStream(Socket{Service: f.Name(), File: f})
		if err != nil {
			if s, err = p.newDatagram(Socket{Service: TFTP, File: f}); err != nil {
				err = fmt.Errorf("%w; in the socket unit, ListenDatagram=69 is what TFTP needs, and ListenStream=22 what SFTP does", err)
			}
		} else if network := s.at.Network(); network != "tcp" && (network != "unix" || !takesUnix) {
			err = failure.Text("%s: a stream socket that is not TCP; in the socket unit, ListenStream=22 is what SFTP needs; "+
				"a path is for HTTP with %s unix, or for SFTP with %s unix", f.Name(), failure.Flag("http-proxy"), failure.Flag("sftp-proxy"))
		}
		if err != nil {
			for _, f := range files[i:] {
				_ = f.Close()
			}
			return err
		}
		p.left = append(p.left, s)
	}
	return nil
}

// newStream adopts a listening socket.
func (p *Inherited) newStream(s Socket) (*inherited, error) {
	l, err := net.FileListener(s.File)
	if err != nil {
		return nil, fmt.Errorf("adopt socket %s: %w", s.File.Name(), err)
	}
	_ = l.Close() // l is a duplicate; closing it does not remove the path of a unix socket
	return &inherited{Socket: s, at: l.Addr()}, nil
}

// newDatagram adopts a socket for TFTP, and closes its file if it succeeds.
func (p *Inherited) newDatagram(s Socket) (*inherited, error) {
	conn, err := udp.FromFile(s.File, p.config)
	if err != nil {
		return nil, err
	}
	_ = s.File.Close() // conn has a duplicate
	s.File = nil
	return &inherited{Socket: s, at: net.UDPAddrFromAddrPort(conn.LocalAddr()), conn: conn}, nil
}

// newUnread adopts a socket or another file without examining it, because only the service that
// uses the file may read from it.
func (p *Inherited) newUnread(s Socket) (*inherited, error) {
	return &inherited{Socket: s, at: &net.UDPAddr{}}, nil
}

// adopt adopts a socket of the predecessor.
func (p *Inherited) adopt(s Socket, served, unix []string) error {
	if s.Addr == "" && !slices.Contains(served, s.Service) {
		return fmt.Errorf("systemd passed a socket for %s, which is no longer served: stop its socket unit, and then restart haul", s.Service)
	}
	add := p.newStream
	switch s.Service {
	case TFTP:
		add = p.newDatagram
	case Boot:
		add = p.newUnread
	case SFTP, HTTP, HTTPS, Metrics, Status:
	default:
		return fmt.Errorf("the predecessor handed over a socket for %q, which this version of haul does not serve", s.Service)
	}
	one, err := add(s)
	if err != nil {
		return err
	}
	p.left = append(p.left, one)
	return one.checkUnix(unix)
}

// assign finds the service for each stream socket from systemd, and replaces the socket's name from
// the unit by the name of the service. If only one service is left, the unit need not name it.
func assign(all []*inherited, services, unix []string) error {
	served := slices.DeleteFunc(slices.Clone(services), func(s string) bool { return s == TFTP || s == Boot })
	for _, s := range all {
		switch {
		case s.conn != nil:
			continue
		case slices.Contains(served, s.Service):
		case len(served) == 0:
			return failure.Text("systemd passed a stream socket, not a datagram socket: in the socket unit, ListenDatagram=69 is what TFTP needs; for SFTP add %s :22, for HTTP %s :80", failure.Flag(SFTP), failure.Flag(HTTP))
		case len(served) > 1 || s.Service == SFTP || s.Service == HTTP || s.Service == HTTPS:
			return fmt.Errorf("systemd passed a stream socket by the name of %s, and what is served is %s: in the socket unit, say which it is for, as FileDescriptorName=%s",
				s.Service, strings.Join(served, ", "), served[0])
		default:
			s.Service = served[0]
		}
		if err := s.checkUnix(unix); err != nil {
			return err
		}
	}
	return nil
}

// checkUnix refuses a unix socket unless its service is in services.
func (s *inherited) checkUnix(services []string) error {
	if s.at.Network() == "unix" && !slices.Contains(services, s.Service) {
		return fmt.Errorf("systemd passed the socket %s for %s, and it is a unix socket: for %[2]s, the socket unit needs a port in ListenStream=; a path needs --%s-proxy unix",
			s.File.Name(), strings.ToUpper(s.Service), strings.TrimSuffix(s.Service, "s"))
	}
	return nil
}

// Close closes the sockets that no service has taken. Otherwise clients could still connect, and
// would never get an answer.
func (p *Inherited) Close() {
	closeInherited(p.left)
	p.left = nil
}

func closeInherited(all []*inherited) {
	for _, s := range all {
		if s.conn != nil {
			_ = s.conn.Close()
		} else {
			_ = s.File.Close()
		}
	}
}
