package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// Bounds of one persona.
const (
	maxTries   = 4  // how often a packet is sent, before the server counts as silent
	maxStrange = 64 // failing reads, and packets from elsewhere that are answered
	maxPacket  = transfer.HeaderSize + transfer.MaxBlockSize
)

// Waits are the clocks of the personas. Real clients wait longer, U-Boot 5 s,
// but a run should take seconds.
type waits struct {
	retry  time.Duration // until a packet is sent again
	quiet  time.Duration // how long is watched for what should not come
	rewind time.Duration // for the window after a NACK; half of what U-Boot waits
	lost   time.Duration // for an OACK to come again
	silent time.Duration // how long the silent requester listens
}

var defaultWaits = waits{
	retry:  time.Second,
	quiet:  300 * time.Millisecond,
	rewind: 2500 * time.Millisecond,
	lost:   7 * time.Second, // atftpd takes 5 s
	silent: 3 * time.Second,
}

// An env is what all personas of a run share. It does not change.
type env struct {
	server   netip.AddrPort
	name     string // of the file, as it goes out
	empty    bool   // the file has no bytes
	maxBytes int64
	timeout  time.Duration
	mtu      int // of the route to the server
	upload   string
	sockets  *sockets
	waits
}

// sockets are all that a run has opened. They stay open until it ends: a port
// that is used again might hear stragglers of the transfer before.
type sockets struct {
	mu  sync.Mutex
	all []*net.UDPConn
}

func (s *sockets) add(c *net.UDPConn) {
	s.mu.Lock()
	s.all = append(s.all, c)
	s.mu.Unlock()
}

func (s *sockets) close() {
	for _, c := range s.all {
		c.Close()
	}
}

// listen opens a socket of the server's family.
func (e *env) listen(port uint16) (*net.UDPConn, error) {
	network := "udp4"
	if e.server.Addr().Is6() {
		network = "udp6"
	}
	conn, err := net.ListenUDP(network, &net.UDPAddr{Port: int(port)})
	if err == nil {
		e.sockets.add(conn)
	}
	return conn, err
}

// A visit is one persona's conversation with the server, over a socket of its
// own. Its methods send and receive, and note what is found.
type visit struct {
	ctx      context.Context
	env      *env
	conn     *net.UDPConn
	unhook   func() bool
	deadline time.Time
	buf      []byte
	strange  int

	peer     netip.AddrPort         // the transfer's other end; zero until it is heard
	homeOnly bool                   // drop what comes from another address than asked, as NIC ROMs do
	foreign  int                    // datagrams from other addresses, dropped for that
	others   map[netip.AddrPort]int // packets, but ERRORs, from elsewhere than the peer

	report  *Report
	content []byte // of the file; nil if it was not fetched
	size    int64  // from an OACK; -1 for none
	trusts  bool   // and that counts for more than a progress bar
	differs string // the rule broken if the content is not that of the others
}

func newVisit(ctx context.Context, e *env, name, sends string) (*visit, error) {
	v := &visit{
		ctx: ctx, env: e, deadline: time.Now().Add(e.timeout), buf: make([]byte, maxPacket+1),
		report: &Report{Persona: name, Sends: sends}, size: -1, differs: ruleContent,
	}
	return v, v.open(0)
}

// open gives the visit a new socket, at port if that is free and not 0, and
// no peer.
func (v *visit) open(port uint16) error {
	v.close()
	conn, err := v.env.listen(port)
	if err != nil && port != 0 {
		conn, err = v.env.listen(0)
	}
	if err != nil {
		return fmt.Errorf("open a socket towards %v: %w", v.env.server, err)
	}
	v.conn, v.peer, v.others = conn, netip.AddrPort{}, map[netip.AddrPort]int{}
	v.unhook = context.AfterFunc(v.ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	return nil
}

// close leaves the socket, which stays open until the run ends.
func (v *visit) close() {
	if v.conn != nil {
		v.unhook()
		v.conn = nil
	}
}

// port returns the port that the visit sends from.
func (v *visit) port() uint16 { return v.conn.LocalAddr().(*net.UDPAddr).AddrPort().Port() }

// over reports that the visit must end: its time is up, or the run's.
func (v *visit) over() bool { return v.ctx.Err() != nil || !time.Now().Before(v.deadline) }

// send sends a packet to the peer, and before that is known to where requests
// go. A packet that cannot be sent is lost, as on any link.
func (v *visit) send(b []byte) {
	to := v.peer
	if !to.IsValid() || isRequest(b) {
		to = v.env.server
	}
	_, _ = v.conn.WriteToUDPAddrPort(b, to)
}

func isRequest(b []byte) bool {
	op := transfer.OpcodeOf(b)
	return op == transfer.ReadRequest || op == transfer.WriteRequest
}

// receive returns the peer's next packet, or false if none comes within wait
// or the visit is over. The first to answer is the peer; what comes from
// elsewhere is answered by ERROR 5 (RFC 1350 §4) and counted.
func (v *visit) receive(wait time.Duration) (packet, bool) {
	until := time.Now().Add(wait)
	for {
		p, ok := v.receiveAny(until)
		if !ok {
			return p, false
		}
		switch {
		case v.peer.IsValid() && p.from == v.peer:
			return p, true
		case v.peer.IsValid():
			v.turnAway(p)
		case v.homeOnly && p.from.Addr() != v.env.server.Addr():
			v.foreign++
		default:
			v.peer = p.from
			return p, true
		}
	}
}

// receiveAny returns the next packet, wherever it comes from.
func (v *visit) receiveAny(until time.Time) (packet, bool) {
	if until.After(v.deadline) {
		until = v.deadline
	}
	for v.strange < maxStrange {
		v.conn.SetReadDeadline(until)
		if v.ctx.Err() != nil { // after the deadline was set, or AfterFunc's would be lost
			return packet{}, false
		}
		n, from, err := v.conn.ReadFromUDPAddrPort(v.buf)
		switch {
		case err == nil:
			p := parsePacket(v.buf[:n])
			p.from, p.at = netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), time.Now()
			return p, true
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
			return packet{}, false
		}
		v.strange++ // Windows reports an unreachable port here
	}
	return packet{}, false
}

// turnAway answers a packet from another than the peer.
func (v *visit) turnAway(p packet) {
	if p.op == transfer.ErrorPacket {
		return
	}
	v.others[p.from]++
	if v.strange++; v.strange < maxStrange {
		_, _ = v.conn.WriteToUDPAddrPort(fault(transfer.UnknownID, "Unknown transfer ID"), p.from)
	}
}

// ask sends a request until it is answered. It returns false if it is not.
func (v *visit) ask(b []byte) (packet, bool) {
	for range maxTries {
		v.send(b)
		if p, ok := v.receive(v.env.retry); ok {
			return p, true
		}
		if v.over() {
			break
		}
	}
	return packet{}, false
}

// next sends b to the peer until a packet comes that fits. Others are passed over.
func (v *visit) next(b []byte, fits func(packet) bool) (packet, bool) {
	for range maxTries {
		v.send(b)
		for until := time.Now().Add(v.env.retry); ; {
			p, ok := v.receive(time.Until(until))
			if !ok {
				break
			}
			if fits(p) {
				return p, true
			}
		}
		if v.over() {
			break
		}
	}
	return packet{}, false
}

// sendAbort ends the transfer politely.
func (v *visit) sendAbort(text string) {
	if v.peer.IsValid() {
		v.send(fault(transfer.NotDefined, text))
	}
}

// breaks notes that the server broke a rule.
func (v *visit) breaks(rule string, bad Verdict, format string, args ...any) {
	for _, f := range v.report.Findings {
		if f.Rule == rule {
			return // once is enough
		}
	}
	saw := fmt.Sprintf(format, args...)
	v.report.Findings = append(v.report.Findings, Finding{Rule: rule, Verdict: bad, Saw: saw})
}

// misses notes that what a rule asks for did not come. If time ran out
// meanwhile, that proves nothing.
func (v *visit) misses(rule string, bad Verdict, format string, args ...any) {
	if v.over() {
		v.skip("the time was up before something came")
		return
	}
	v.breaks(rule, bad, format, args...)
}

// note adds a remark that is no finding.
func (v *visit) note(format string, args ...any) {
	v.report.Notes = append(v.report.Notes, fmt.Sprintf(format, args...))
}

// skip notes why something could not be judged.
func (v *visit) skip(format string, args ...any) {
	v.note("not judged: "+format, args...)
	v.report.skipped = true
}

// unanswered notes that a request had no answer, or none that the persona takes.
func (v *visit) unanswered(what string) {
	switch {
	case v.ctx.Err() != nil:
		v.skip("the run was over")
	case v.foreign > 0:
		v.breaks(ruleAddress, Failed, "%v was asked, and the answer came from elsewhere; this client drops it", v.env.server.Addr())
	default:
		v.breaks(ruleNoAnswer, Failed, "no answer to %s", what)
	}
}

// reopen continues from another port.
func (v *visit) reopen(port uint16) error {
	err := v.open(port)
	if err != nil {
		v.skip("%v", err)
	}
	return err
}

// endAndReopen ends the transfer politely, and continues from another port.
func (v *visit) endAndReopen() bool {
	v.sendAbort("closed")
	return v.reopen(0) == nil
}

// renamed gives a finding the name of its cause, where a persona knows better.
func (v *visit) renamed(from, to string) bool {
	for i := range v.report.Findings {
		if f := &v.report.Findings[i]; f.Rule == from {
			f.Rule = to
			return true
		}
	}
	return false
}

// amount says how much of the file a visit has.
func (v *visit) amount() string {
	if v.report.Whole {
		return fmt.Sprintf("%d bytes", len(v.content))
	}
	return fmt.Sprintf("%d bytes or more", len(v.content))
}
