package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// A Socket listens on an address. [Server.Serve] takes a Socket over and closes it.
type Socket struct {
	addr    net.Addr
	kernels []*kernel // the kernel sockets that share the address
	path    string    // path of a unix socket that Listen created; close removes it. Guarded by mu

	mu sync.Mutex
	// served is the watch of the run that serves the socket; nil if no run serves it. The acceptors
	// of that run close the kernel sockets. Guarded by mu.
	served *watch
	closed bool // Close was called. Guarded by mu
}

// Listen opens a socket. The address is "host:port", or "unix:" followed by a path. An empty host
// means all IPv4 and IPv6 addresses of the machine, and port 0 means a free port. A path that
// begins with "@" is a name outside the file system (an abstract socket). If the path is a socket
// on which no process listens, Listen removes it first. Listen refuses an address that another
// socket uses, even if that socket would allow sharing it.
func Listen(ctx context.Context, addr string, o Options) (*Socket, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	network := "tcp"
	path, isUnix := strings.CutPrefix(addr, "unix:")
	if isUnix {
		network, addr, o.Sockets = "unix", path, 1
		removeStale(path)
	}
	kernels, at, err := listen(ctx, network, addr, o)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	s := &Socket{addr: at, kernels: kernels}
	if isUnix && path != "" && path[0] != '@' {
		s.path = path
	}
	return s, nil
}

// removeStale removes a unix socket on which no process listens.
func removeStale(path string) {
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != os.ModeSocket {
		return
	}
	if c, err := net.Dial("unix", path); err == nil {
		_ = c.Close()
	} else if errors.Is(err, syscall.ECONNREFUSED) {
		_ = os.Remove(path) // on failure, listening fails too, and its error says why
	}
}

// fromFile makes a Socket of one file: see FromFiles.
func fromFile(f *os.File, o Options) (*Socket, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	// net.FileListener refuses sockets that do not listen.
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("%s is no listening stream socket: %w", f.Name(), err)
	}
	s, err := fromListener(l, o)
	if err == nil {
		s.kernels[0].share()
	}
	return s, err
}

// FromFiles makes Sockets of files that systemd or the previous process has handed over. The
// options in o apply to their connections, but o.Sockets is not used. Files with the same address
// become one Socket, as they were before [Socket.Files]. The caller still has to close the files.
func FromFiles(files []*os.File, o Options) (sockets []*Socket, err error) {
	for _, f := range files {
		s, err := fromFile(f, o)
		if err != nil {
			closeAll(sockets)
			return nil, err
		}
		same := slices.IndexFunc(sockets, func(t *Socket) bool {
			return t.addr.Network() == s.addr.Network() && t.addr.String() == s.addr.String()
		})
		if same < 0 {
			sockets = append(sockets, s)
		} else {
			sockets[same].kernels = append(sockets[same].kernels, s.kernels...)
		}
	}
	return sockets, nil
}

// fromListener makes a Socket of a listener of package net, and takes the listener over. On Linux it
// closes the listener, because the Socket uses a duplicate of its descriptor: see newKernel.
func fromListener(l net.Listener, o Options) (*Socket, error) {
	addr := l.Addr()
	k, err := newKernel(l, o)
	if err != nil {
		return nil, fmt.Errorf("listen on %v: %w", addr, err)
	}
	return &Socket{addr: addr, kernels: []*kernel{k}}, nil
}

// Addr returns the address that s listens on.
func (s *Socket) Addr() net.Addr { return s.addr }

// Files returns duplicates of the kernel sockets, for another process that serves the address from
// now on. When s is closed, its queued connections are left to that process, and the file of a unix
// socket is not removed.
func (s *Socket) Files() ([]*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("hand over %v: %w", s.addr, net.ErrClosed)
	}
	var files []*os.File
	for _, k := range s.kernels {
		f, err := k.duplicate()
		if err != nil {
			for _, f := range files {
				_ = f.Close()
			}
			return nil, fmt.Errorf("hand over %v: %w", s.addr, err)
		}
		files = append(files, f)
	}
	s.path = ""
	return files, nil
}

// Close stops listening. Open connections continue.
func (s *Socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.close()
}

// closeAll closes the sockets that are not being served.
func closeAll(sockets []*Socket) {
	for _, s := range sockets {
		s.mu.Lock()
		if s.served == nil {
			_ = s.close()
		}
		s.mu.Unlock()
	}
}

// close does the work of Close. The caller holds mu.
func (s *Socket) close() error {
	if s.closed {
		return fmt.Errorf("close %v: %w", s.addr, net.ErrClosed)
	}
	s.closed = true
	if s.path != "" {
		// Remove the file, so that clients no longer find the socket. On failure, they find one on
		// which nobody listens.
		_ = os.Remove(s.path)
	}
	var errs []error
	for _, k := range s.kernels {
		if s.served != nil {
			k.stop(!s.served.asleep.Load())
		} else {
			errs = append(errs, k.close())
		}
	}
	return errors.Join(errs...)
}

// serve records that the acceptors of a watch close the kernel sockets. After that, Close only
// stops these sockets.
func (s *Socket) serve(w *watch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return fmt.Errorf("serve %v: %w", s.addr, net.ErrClosed)
	case s.served != nil:
		return fmt.Errorf("serve %v: it is being served already", s.addr)
	}
	s.served = w
	return nil
}

// unserve undoes serve, if it was called with the same watch.
func (s *Socket) unserve(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.served == w {
		s.served = nil
	}
}
