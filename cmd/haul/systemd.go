package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/haul-project/haul/tcp"
	"github.com/haul-project/haul/udp"
)

// maxPassed is the most sockets taken from systemd. A unit lists one for each
// address.
const maxPassed = 64

// activated adopts the sockets that systemd opened for this process by a socket
// unit (sd_listen_fds(3)): those for datagrams, and the listening ones, by the names
// that their units give them (FileDescriptorName=). There are none if it was started
// another way. Call it once: it removes from the environment what systemd said. local
// says that unix sockets are wanted, too.
func activated(c udp.Config, local bool) (conns []*udp.Conn, streams []handed, err error) {
	files := activation.Files(true)
	// So many cannot be meant. Some may be descriptors of our own, so none is closed.
	if len(files) > maxPassed {
		return nil, nil, listenError{fmt.Errorf("systemd passed %d sockets; at most %d are taken", len(files), maxPassed)}
	}
	defer func() {
		for _, f := range files {
			if !slices.ContainsFunc(streams, func(h handed) bool { return h.file == f }) {
				_ = f.Close() // what was made of it has its own
			}
		}
		if err != nil {
			closeAll(conns)
			closeHanded(streams)
			conns, streams = nil, nil
		}
	}()
	for _, f := range files {
		// It takes what streams, and refuses all else.
		if l, err := net.FileListener(f); err == nil {
			_ = l.Close()
			if network := l.Addr().Network(); network != "tcp" && (network != "unix" || !local) {
				return conns, streams, listenError{fmt.Errorf("%s: a stream socket that is not TCP; in the socket unit, ListenStream=22 is what SFTP needs; "+
					"a path is for HTTP with --http-proxy unix", f.Name())}
			}
			streams = append(streams, handed{f.Name(), f})
			continue
		}
		conn, err := udp.FromFile(f, c)
		if err != nil {
			return conns, streams, listenError{fmt.Errorf("%w; in the socket unit, ListenDatagram=69 is what TFTP needs, and ListenStream=22 what SFTP does", err)}
		}
		conns = append(conns, conn)
	}
	return conns, streams, nil
}

// inheritedSockets are those from systemd, or from a predecessor, that no service
// has taken yet.
type inheritedSockets struct {
	datagram []*udp.Conn
	stream   []handed     // each by the name of a service that there is
	metrics  net.Listener // nil if there is none
}

// adopt takes the sockets of a predecessor. Of those that it has no use for as files
// it closes these.
func (p *inheritedSockets) adopt(sockets []handed, c udp.Config) (err error) {
	defer func() { closeHanded(sockets) }()
	for i, h := range sockets {
		switch h.name {
		case tftpName:
			conn, err := udp.FromFile(h.file, c)
			if err != nil {
				return err
			}
			p.datagram = append(p.datagram, conn)
		case sftpName, httpName, httpsName:
			p.stream = append(p.stream, h)
			sockets[i].file = nil // not to be closed
		case metricsName:
			l, err := net.FileListener(h.file)
			if err != nil {
				return fmt.Errorf("adopt socket %s: %w", h.file.Name(), err)
			}
			p.metrics = l
		default:
			return fmt.Errorf("a predecessor handed over a socket for %q, which this version of haul does not serve", h.name)
		}
	}
	return nil
}

// activated returns the sockets from systemd, and those of a predecessor. One for
// a protocol that is not served is an error.
func (f *serveFlags) activated(handedOver []handed) (*inheritedSockets, error) {
	conns, streams, err := activated(udp.Config{Plain: f.noOffload}, f.web.unixProxies)
	if err != nil {
		return nil, err
	}
	p := &inheritedSockets{datagram: conns, stream: streams}
	if len(conns) > 0 && !f.servesTFTP() {
		err = errors.New("systemd passed a datagram socket, which is for TFTP, and that is not served: add --tftp :69, or take ListenDatagram= out of the socket unit")
	}
	err = errors.Join(err, f.assign(p.stream))
	if err == nil {
		err = p.adopt(handedOver, udp.Config{Plain: f.noOffload})
	}
	if err != nil {
		p.close()
		return nil, listenError{err}
	}
	return p, nil
}

// assign finds the service that each stream socket from systemd is for, and puts its
// name in place of the one from the socket unit. That need not say it if there is
// only one such service.
func (f *serveFlags) assign(streams []handed) error {
	var served []string
	for _, s := range []struct {
		name   string
		serves bool
	}{{sftpName, f.servesSFTP()}, {httpName, anyAddr(f.http)}, {httpsName, anyAddr(f.https)}} {
		if s.serves {
			served = append(served, s.name)
		}
	}
	for i, h := range streams {
		switch {
		case slices.Contains(served, h.name):
		case len(served) == 0:
			return errors.New("systemd passed a stream socket, not a datagram socket: in the socket unit, ListenDatagram=69 is what TFTP needs; for SFTP add --sftp :22, for HTTP --http :80")
		case len(served) > 1 || h.name == sftpName || h.name == httpName || h.name == httpsName:
			return fmt.Errorf("systemd passed a stream socket by the name of %s, and what is served is %s: in the socket unit, say which it is for, as FileDescriptorName=%s",
				h.name, strings.Join(served, ", "), served[0])
		default:
			streams[i].name = served[0]
		}
		if streams[i].name == sftpName && isUnix(h.file) {
			return fmt.Errorf("systemd passed the socket %s for SFTP, and it is a unix socket: for SFTP, the socket unit has ListenStream=22; a path is for HTTP", h.file.Name())
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

func (p *inheritedSockets) takeDatagram() []*udp.Conn {
	conns := p.datagram
	p.datagram = nil
	return conns
}

// takeStream returns the listening sockets for a service.
func (p *inheritedSockets) takeStream(name string, o tcp.Options) ([]*tcp.Socket, error) {
	var files []*os.File
	p.stream = slices.DeleteFunc(p.stream, func(h handed) bool {
		if h.name == name {
			files = append(files, h.file)
		}
		return h.name == name
	})
	defer closeAll(files)
	return tcp.FromFiles(files, o)
}

func (p *inheritedSockets) takeMetrics() net.Listener {
	l := p.metrics
	p.metrics = nil
	return l
}

// close closes what nobody has taken.
func (p *inheritedSockets) close() {
	closeAll(p.datagram)
	closeHanded(p.stream)
	if p.metrics != nil {
		_ = p.metrics.Close()
	}
}

func closeAll[C io.Closer](conns []C) {
	for _, c := range conns {
		_ = c.Close()
	}
}

// A manager is the service manager that started this process: systemd, or one
// that understands sd_notify(3). Nil is none, and every method of it does
// nothing.
type manager struct {
	conn     *net.UnixConn
	watchdog time.Duration // it expects to hear from us this often; 0 means never
}

// maxNotify is how long a message may wait for a manager that is slow to read.
const maxNotify = 5 * time.Second

// findManager connects to the service manager, if there is one.
//
// Package daemon would connect anew for each message. A process that has
// confined itself may not (Landlock ABI 6 for abstract sockets, 9 for others),
// so the connection is made beforehand, and kept.
func findManager() (*manager, error) {
	path := os.Getenv("NOTIFY_SOCKET")
	watchdog, err := daemon.SdWatchdogEnabled(true)
	if err != nil {
		return nil, fmt.Errorf("service manager: %w", err)
	}
	if path == "" {
		return nil, nil
	}
	if err := os.Unsetenv("NOTIFY_SOCKET"); err != nil {
		return nil, err
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("service manager, at NOTIFY_SOCKET=%s: %w", path, err)
	}
	return &manager{conn, watchdog}, nil
}

// Close ends the connection.
func (m *manager) Close() error {
	if m == nil {
		return nil
	}
	return m.conn.Close()
}

// ready says that requests are answered from now on. The status is for people:
// "systemctl status" shows it.
func (m *manager) ready(status string) error {
	return m.tell(daemon.SdNotifyReady, statusLine(status))
}

// succeededBy says that another process is the service from now on. The manager
// then listens to that alone (NotifyAccess=main), and so it is our last word.
func (m *manager) succeededBy(pid int) error {
	return m.tell(fmt.Sprintf("MAINPID=%d", pid), statusLine("a successor takes over"))
}

// stopping says that the end has begun, and no watchdog need bark any more.
func (m *manager) stopping(status string) error {
	return m.tell(daemon.SdNotifyStopping, statusLine(status))
}

// statusLine puts a status on one line, as a message has several.
func statusLine(status string) string {
	return "STATUS=" + strings.Join(strings.Fields(status), " ")
}

func (m *manager) tell(lines ...string) error {
	if m == nil {
		return nil
	}
	m.conn.SetWriteDeadline(time.Now().Add(maxNotify))
	if _, err := m.conn.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		return fmt.Errorf("tell the service manager %s: %w", lines[0], err)
	}
	return nil
}

// keepAlive feeds the manager's watchdog until ctx ends, if it has one. As long
// as alive says false it goes hungry, and the manager restarts the service when
// the time that its unit sets has passed.
func (m *manager) keepAlive(ctx context.Context, alive func() bool) error {
	if m == nil || m.watchdog == 0 {
		return nil
	}
	// sd_watchdog_enabled(3) recommends half the time. A third leaves room for
	// one message that comes late.
	tick := time.NewTicker(max(m.watchdog/3, time.Millisecond))
	defer tick.Stop()
	for ctx.Err() == nil {
		if alive() {
			err := m.tell(daemon.SdNotifyWatchdog)
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				return err
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}
