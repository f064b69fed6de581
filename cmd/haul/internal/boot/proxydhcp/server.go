// Package proxydhcp runs package pxe on real sockets: it answers boot clients on ports 67 and 4011
// of all interfaces, next to the network's DHCP server, which may even run on the same machine.
//
// The files from top to bottom: service.go puts everything together according to the user's
// settings, which are in settings.go; log.go contains its log and counts. server.go receives,
// decides and sends. ask.go and kinds.go are the client side, which sends requests in the same way
// as machines. scripts.go and loaders.go provide the files that boot clients get besides the served
// ones. interfaces.go and networks_linux.go list this machine's addresses. socket.go and
// share_linux.go contain the sockets.
package proxydhcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
)

const (
	// errorPause is how long the server waits after an error of a socket, which can occur, for
	// example, when an interface disappears. After maxErrors errors in a row, which take some 10 s,
	// the server stops.
	errorPause = 100 * time.Millisecond
	maxErrors  = 100
)

// A Config says which clients are answered, and how.
type Config struct {
	Rules pxe.Rules

	// Interfaces holds the names of the interfaces on which clients are answered. Empty means all
	// interfaces but loopback.
	Interfaces []string

	// Address is the address at which clients reach this server, for example that of a router that
	// forwards their requests. The zero address means the address of the interface on which the
	// request arrived.
	Address netip.Addr

	// With DryRun the server decides and reports as usual, but sends nothing.
	DryRun bool

	// Report, if set, is called for each packet. Staged, if set, is called for each machine that
	// has reached another stage; file is the name of the requested file that caused this, or "" if
	// no request did. Several goroutines may call them at the same time.
	Report func(Event)
	Staged func(m pxe.Machine, file string)
}

// An Event describes a packet, and the answer to it.
type Event struct {
	Answer    pxe.Answer
	Interface string
	Request   []byte // the packet; valid only during the call of Report
	From      netip.AddrPort
	Port      uint16 // port of this server at which the packet arrived
	Err       error  // error from sending the answer; nil if it was sent or there is no answer
}

// A Server answers boot clients. Call [Server.Open] or [Server.Adopt], then [Server.Serve], then
// [Server.Close]. The other methods may be called at any time.
type Server struct {
	config  Config
	sockets []*socket
	serving atomic.Bool
	closed  chan struct{}
	close   sync.Once

	interfaces interfaces

	mu     sync.Mutex
	decide *pxe.Server // guarded by mu
}

// New returns a server. It returns an error if a rule is invalid.
func New(c Config) (*Server, error) {
	decide, err := pxe.NewServer(c.Rules)
	if err != nil {
		return nil, err
	}
	return &Server{
		config: c, decide: decide, closed: make(chan struct{}),
		interfaces: interfaces{names: c.Interfaces, list: listInterfaces},
	}, nil
}

// Open opens both ports. If another DHCP server of this machine has port 67 open, Open shares the
// port, which requires CAP_NET_RAW.
func (s *Server) Open(ctx context.Context) error {
	first, err := openSocket(ctx, dhcp.PortServer, true)
	if err != nil {
		return err
	}
	s.sockets = append(s.sockets, first)
	boot, err := openSocket(ctx, dhcp.PortPXE, false)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w: another boot server of this machine has it, such as dnsmasq with pxe-service, or haul; end that one", err)
	}
	if err != nil {
		return err
	}
	s.sockets = append(s.sockets, boot)
	return nil
}

// Opened reports whether the ports are open.
func (s *Server) Opened() bool { return len(s.sockets) > 0 }

// Adopt takes over a predecessor's sockets, which its [Server.Files] returned. It replaces Open. It
// duplicates the sockets; the caller closes the files.
func (s *Server) Adopt(files []*os.File) error {
	for i, port := range ports {
		if i >= len(files) {
			return errors.New("adopt the sockets of the predecessor: one is missing")
		}
		adopted, err := adoptSocket(files[i], port)
		if err != nil {
			return fmt.Errorf("adopt port %d: %w", port, err)
		}
		s.sockets = append(s.sockets, adopted)
	}
	return nil
}

// FileNames holds names for the files that [Server.Files] returns, in the same order.
var FileNames = []string{fmt.Sprintf(":%d", dhcp.PortServer), fmt.Sprintf(":%d", dhcp.PortPXE), "memory"}

// ports holds the ports of the sockets, in the order of the sockets.
var ports = []uint16{dhcp.PortServer, dhcp.PortPXE}

// Files returns, for a successor, duplicates of the sockets, and a file with the machines that the
// server remembers.
func (s *Server) Files() (files []*os.File, err error) {
	for _, one := range s.sockets {
		f, failed := one.duplicate()
		if failed != nil {
			closeFiles(files)
			return nil, fmt.Errorf("duplicate the socket of port %d: %w", one.port, failed)
		}
		files = append(files, f)
	}
	// If this fails, the successor must find out again which form of answers each machine accepts.
	if f, err := memoryFile(s.appendMemory(nil)); err == nil {
		files = append(files, f)
	}
	return files, nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// Shares reports whether another DHCP server of this machine has port 67 open too.
func (s *Server) Shares() bool { return s.Opened() && s.sockets[0].raw }

// SetRules replaces the rules.
func (s *Server) SetRules(r pxe.Rules) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.decide.SetRules(r)
}

// Requested records that a client has requested a file of that name from this machine, by TFTP or
// HTTP.
func (s *Server) Requested(peer netip.Addr, name string) {
	peer = peer.Unmap()
	if !peer.Is4() {
		return
	}
	s.mu.Lock()
	m, changed := s.decide.Requested(time.Now(), peer.As4(), name)
	s.mu.Unlock()
	if changed && s.config.Staged != nil {
		s.config.Staged(m, name)
	}
}

// reportChanges calls Staged for the machines that have become quiet or stuck.
func (s *Server) reportChanges() {
	s.mu.Lock()
	all := slices.Collect(s.decide.Changes(time.Now()))
	s.mu.Unlock()
	for _, m := range all {
		s.config.Staged(m, "")
	}
}

// Machines returns the remembered machines, the latest first.
func (s *Server) Machines() (all []pxe.Machine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.decide.Machines(time.Now()) {
		all = append(all, m)
	}
	return all
}

// Count returns the number of machines that are at the given stage.
func (s *Server) Count(stage pxe.Stage) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.decide.Machines(time.Now()) {
		if m.Stage == stage {
			n++
		}
	}
	return n
}

// Serve answers packets until ctx ends or the server is closed. If a socket fails too often, Serve
// closes the server and returns an error.
func (s *Server) Serve(ctx context.Context) error {
	defer context.AfterFunc(ctx, s.Close)()
	s.serving.Store(true)
	defer s.serving.Store(false)
	s.interfaces.refresh()
	go s.interfaces.follow(s.closed)
	var running sync.WaitGroup
	errs := make([]error, len(s.sockets))
	for i, one := range s.sockets {
		running.Go(func() {
			if errs[i] = s.run(one); errs[i] != nil {
				s.Close()
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// Serving reports whether Serve runs.
func (s *Server) Serving() bool { return s.serving.Load() }

// Close closes the sockets, which makes Serve return.
func (s *Server) Close() {
	s.close.Do(func() {
		close(s.closed)
		for _, one := range s.sockets {
			one.close()
		}
	})
}

// run answers the packets of one socket, until the socket is closed or has failed too often.
func (s *Server) run(from *socket) error {
	in, out := newInbox(batchSize), newOutbox(batchSize)
	events, answers := make([]Event, batchSize), make([]byte, batchSize*dhcp.MaxReply)
	for failed := 0; ; {
		packets, err := from.receive(in)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			if failed++; failed == maxErrors {
				return fmt.Errorf("receive on port %d: %w", from.port, err)
			}
			select {
			case <-s.closed:
				return nil
			case <-time.After(errorPause):
			}
			continue
		}
		failed = 0
		for i, p := range packets {
			buf := answers[i*dhcp.MaxReply:][:0:dhcp.MaxReply]
			e, to := s.handle(p.packet, p.arrival, from.port, buf)
			if events[i] = e; len(e.Answer.Packet) > 0 && !s.config.DryRun {
				from.add(out, e.Answer.Packet, to, &events[i].Err)
			}
		}
		from.send(out)
		if s.config.Report != nil {
			for i := range packets {
				s.config.Report(events[i])
			}
		}
	}
}

// handle decides about a packet. It returns an event, which contains the answer, if there is one,
// and how to send that answer.
func (s *Server) handle(packet []byte, came arrival, port uint16, buf []byte) (Event, departure) {
	now := time.Now()
	e := Event{Request: packet, From: came.peer, Port: port}
	by, ok := s.interfaces.find(came.index, now)
	if !ok {
		e.Answer.Reason = pxe.OtherLink
		return e, departure{}
	}
	own := by.address(came.peer.Addr())
	shown := own
	if s.config.Address.IsValid() {
		shown = s.config.Address
	}
	unicast := came.to != broadcast && !s.interfaces.broadcasts(came.to)
	e.Interface = by.Name
	s.mu.Lock()
	e.Answer = s.decide.Handle(now, packet, pxe.Arrival{
		Port:     port,
		From:     came.peer.Addr().As4(),
		FromPort: came.peer.Port(),
		OnLink:   by.contains(came.peer.Addr()),
		Unicast:  unicast,
		Server:   shown.As4(),
	}, buf)
	s.mu.Unlock()
	if unicast && came.to.Is4() && !came.to.IsMulticast() {
		own = came.to // because firmware accepts an answer only from the address that it sent the request to
	}
	to := departure{from: own, to: netip.AddrPortFrom(netip.AddrFrom4(e.Answer.To), e.Answer.ToPort)}
	switch {
	case e.Answer.To == dhcp.Broadcast, by.contains(to.to.Addr()):
		to.index = by.Index
	case s.interfaces.broadcasts(to.to.Addr()):
		e.Answer.Packet, e.Err = nil, errToBroadcast
	}
	return e, to
}

var errToBroadcast = errors.New("the answer would go to a broadcast address")
