package handover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// A Manager is the service manager that started this process: systemd, or another one that supports
// sd_notify(3). The methods of a nil Manager do nothing.
type Manager struct {
	conn     *net.UnixConn
	watchdog time.Duration // the manager expects a message within this time; 0 means that it expects none
}

// maxNotify is how long sending a message may take if the manager is slow to read.
const maxNotify = 5 * time.Second

// FindManager connects to the service manager, if there is one. Call it once, since it removes
// the manager's variables from the environment.
//
// Package daemon would open a new connection for each message, but a confined process may not
// connect (Landlock ABI 6 for abstract sockets, 9 for others). So FindManager connects before the
// confinement, and the Manager keeps the connection.
func FindManager() (*Manager, error) {
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
	return &Manager{conn, watchdog}, nil
}

// Close closes the connection to the service manager.
func (m *Manager) Close() error {
	if m == nil {
		return nil
	}
	return m.conn.Close()
}

// Ready reports that the service answers requests from now on. "systemctl status" shows the status.
func (m *Manager) Ready(status string) error {
	return m.notify(daemon.SdNotifyReady, statusLine(status))
}

// SucceededBy reports that the process pid replaces this process as the main process of the
// service. The manager then listens only to that process (NotifyAccess=main), so later messages
// have no effect.
func (m *Manager) SucceededBy(pid int) error {
	return m.notify(fmt.Sprintf("MAINPID=%d", pid), statusLine("another process takes over"))
}

// Stopping reports that this process is about to end, so that the watchdog no longer expects
// messages.
func (m *Manager) Stopping(status string) error {
	return m.notify(daemon.SdNotifyStopping, statusLine(status))
}

// statusLine puts a status on one line, since a message consists of lines.
func statusLine(status string) string {
	return "STATUS=" + strings.Join(strings.Fields(status), " ")
}

func (m *Manager) notify(lines ...string) error {
	if m == nil {
		return nil
	}
	m.conn.SetWriteDeadline(time.Now().Add(maxNotify))
	if _, err := m.conn.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		return fmt.Errorf("notify the service manager %s: %w", lines[0], err)
	}
	return nil
}

// KeepAlive resets the manager's watchdog, if the manager has one, until ctx ends. While alive
// returns false, it does not reset the watchdog, and the manager restarts the service after the
// time that its unit sets.
func (m *Manager) KeepAlive(ctx context.Context, alive func() bool) error {
	if m == nil || m.watchdog == 0 {
		return nil
	}
	// sd_watchdog_enabled(3) recommends half the time. A third leaves room for one message that
	// arrives late.
	tick := time.NewTicker(max(m.watchdog/3, time.Millisecond))
	defer tick.Stop()
	for ctx.Err() == nil {
		if alive() {
			err := m.notify(daemon.SdNotifyWatchdog)
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
