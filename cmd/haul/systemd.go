package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/haul-project/haul/udp"
)

// maxPassed is the most sockets taken from systemd. A unit lists one for each
// address.
const maxPassed = 64

// activated adopts the sockets that systemd opened for this process by a socket
// unit (sd_listen_fds(3)): those for datagrams, and the listening ones. There are
// none if it was started another way. Call it once: it removes from the
// environment what systemd said.
func activated(c udp.Config) (conns []*udp.Conn, listeners []net.Listener, err error) {
	files := activation.Files(true)
	// So many cannot be meant. Some may be descriptors of our own, so none is closed.
	if len(files) > maxPassed {
		return nil, nil, listenError{fmt.Errorf("systemd passed %d sockets; at most %d are taken", len(files), maxPassed)}
	}
	defer func() {
		for _, f := range files {
			_ = f.Close() // what was made of it has its own
		}
		if err != nil {
			closeAll(conns)
			closeAll(listeners)
			conns, listeners = nil, nil
		}
	}()
	for _, f := range files {
		// It takes what streams, and refuses all else.
		if l, err := net.FileListener(f); err == nil {
			listeners = append(listeners, l)
			if _, ok := l.(*net.TCPListener); !ok {
				return conns, listeners, listenError{fmt.Errorf("%s: a stream socket that is not TCP; in the socket unit, ListenStream=22 is what SFTP needs", f.Name())}
			}
			continue
		}
		conn, err := udp.FromFile(f, c)
		if err != nil {
			return conns, listeners, listenError{fmt.Errorf("%w; in the socket unit, ListenDatagram=69 is what TFTP needs, and ListenStream=22 what SFTP does", err)}
		}
		conns = append(conns, conn)
	}
	return conns, listeners, nil
}

// inheritedSockets are those from systemd that no service has taken yet.
type inheritedSockets struct {
	datagram []*udp.Conn
	stream   []net.Listener
}

// activated returns the sockets from systemd. One for a protocol that is not
// served is an error.
func (f *serveFlags) activated() (*inheritedSockets, error) {
	conns, listeners, err := activated(udp.Config{Plain: f.noOffload})
	if err != nil {
		return nil, err
	}
	p := &inheritedSockets{conns, listeners}
	switch {
	case len(conns) > 0 && !f.servesTFTP():
		err = errors.New("systemd passed a datagram socket, which is for TFTP, and that is not served: add --tftp :69, or take ListenDatagram= out of the socket unit")
	case len(listeners) > 0 && !f.servesSFTP():
		err = errors.New("systemd passed a stream socket, not a datagram socket: in the socket unit, ListenDatagram=69 is what TFTP needs; for SFTP add --sftp :22")
	}
	if err != nil {
		p.close()
		return nil, listenError{err}
	}
	return p, nil
}

func (p *inheritedSockets) takeDatagram() []*udp.Conn {
	conns := p.datagram
	p.datagram = nil
	return conns
}

func (p *inheritedSockets) takeStream() []net.Listener {
	listeners := p.stream
	p.stream = nil
	return listeners
}

// close closes what nobody has taken.
func (p *inheritedSockets) close() {
	closeAll(p.datagram)
	closeAll(p.stream)
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
