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
	maxTries   = 4  // how many times a packet is sent before the server counts as silent
	maxStrange = 64 // after this many failed reads and packets from strangers, nothing more is received
	maxPacket  = transfer.HeaderSize + transfer.MaxBlockSize
)

// waits are the timeouts of the personas. Real clients wait longer (U-Boot 5 s), but a run should take
// seconds.
type waits struct {
	retry  time.Duration // how long to wait until a packet is sent again
	quiet  time.Duration // how long to wait for packets that should not arrive
	rewind time.Duration // how long to wait for the blocks after a NACK: half of U-Boot's timeout
	lost   time.Duration // how long to wait for a repeated OACK
	silent time.Duration // how long the silent requester listens
}

var defaultWaits = waits{
	retry:  time.Second,
	quiet:  300 * time.Millisecond,
	rewind: 2500 * time.Millisecond,
	lost:   7 * time.Second, // atftpd needs 5 s
	silent: 3 * time.Second,
}

// An env holds the settings that all personas of a run share. It does not change.
type env struct {
	server   netip.AddrPort
	name     string // name of the file, as requests contain it
	empty    bool   // the file has no bytes
	maxBytes int64
	timeout  time.Duration
	mtu      int // MTU of the route to the server
	upload   string
	sockets  *sockets
	waits
}

// sockets holds all sockets of a run. They stay open until the run ends, because a reused port might
// receive late packets of an earlier transfer.
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

// listen opens a socket for IPv4 or IPv6, depending on the server's address.
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

// A visit is one persona's conversation with the server, over its own socket. Its methods send and
// receive packets, and record findings.
type visit struct {
	ctx      context.Context
	env      *env
	conn     *net.UDPConn
	unhook   func() bool
	deadline time.Time
	buf      []byte
	strange  int

	peer     netip.AddrPort // the server's address for the transfer; zero until it has answered
	homeOnly bool           // drop packets from all addresses except the server's, as NIC ROMs do
	foreign  int            // number of packets that were dropped because of homeOnly
	// others is the number of packets from each address except the peer's; ERRORs are not counted.
	others map[netip.AddrPort]int

	report  *Report
	content []byte // content of the file; nil if the file was not fetched
	size    int64  // size from an OACK; -1 if no OACK contains it
	trusts  bool   // the client uses the size for more than a progress bar
	differs string // the rule that the server breaks if the content differs from that of the other visits
}

func newVisit(ctx context.Context, e *env, name, sends string) (*visit, error) {
	v := &visit{
		ctx: ctx, env: e, deadline: time.Now().Add(e.timeout), buf: make([]byte, maxPacket+1),
		report: &Report{Persona: name, Sends: sends}, size: -1, differs: ruleContent,
	}
	return v, v.open(0)
}

// open gives the visit a new socket, on the given port, or on any free port if that port is 0 or in
// use. The visit then has no peer.
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

// close stops using the socket, which stays open until the run ends.
func (v *visit) close() {
	if v.conn != nil {
		v.unhook()
		v.conn = nil
	}
}

// port returns the port that the visit sends from.
func (v *visit) port() uint16 { return v.conn.LocalAddr().(*net.UDPAddr).AddrPort().Port() }

// over reports whether the visit must end, because its time or the time of the run is up.
func (v *visit) over() bool { return v.ctx.Err() != nil || !time.Now().Before(v.deadline) }

// send sends a packet to the peer, or to the server's port for requests as long as there is no
// peer. It ignores errors: a packet that cannot be sent is lost, as packets may be on any link.
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

// receive returns the peer's next packet, or false if no packet arrives within wait or the visit is
// over. The sender of the first answer becomes the peer. Packets from other addresses are counted
// and answered with ERROR 5 (RFC 1350 §4).
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

// receiveAny returns the next packet from any address.
func (v *visit) receiveAny(until time.Time) (packet, bool) {
	if until.After(v.deadline) {
		until = v.deadline
	}
	for v.strange < maxStrange {
		v.conn.SetReadDeadline(until)
		if v.ctx.Err() != nil { // checked after SetReadDeadline, which may replace the deadline of AfterFunc
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
		v.strange++ // for example, Windows returns an error if an earlier packet reached a closed port
	}
	return packet{}, false
}

// turnAway answers a packet that is not from the peer.
func (v *visit) turnAway(p packet) {
	if p.op == transfer.ErrorPacket {
		return
	}
	v.others[p.from]++
	if v.strange++; v.strange < maxStrange {
		_, _ = v.conn.WriteToUDPAddrPort(fault(transfer.UnknownID, "Unknown transfer ID"), p.from)
	}
}

// ask sends a request up to maxTries times, until there is an answer. It returns false if there is
// no answer.
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

// next sends b to the peer, up to maxTries times, until a matching packet arrives. It ignores other
// packets.
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

// sendAbort ends the transfer with an ERROR.
func (v *visit) sendAbort(text string) {
	if v.peer.IsValid() {
		v.send(fault(transfer.NotDefined, text))
	}
}

// breaks records that the server broke a rule.
func (v *visit) breaks(rule string, bad Verdict, format string, args ...any) {
	for _, f := range v.report.Findings {
		if f.Rule == rule {
			return // it is already recorded
		}
	}
	saw := fmt.Sprintf(format, args...)
	v.report.Findings = append(v.report.Findings, Finding{Rule: rule, Verdict: bad, Saw: saw})
}

// misses records that a packet which a rule requires did not arrive, unless the visit ran out of
// time.
func (v *visit) misses(rule string, bad Verdict, format string, args ...any) {
	if v.over() {
		v.skip("the time was up before something came")
		return
	}
	v.breaks(rule, bad, format, args...)
}

// note adds a remark to the report.
func (v *visit) note(format string, args ...any) {
	v.report.Notes = append(v.report.Notes, fmt.Sprintf(format, args...))
}

// skip records why something could not be judged.
func (v *visit) skip(format string, args ...any) {
	v.note("not judged: "+format, args...)
	v.report.skipped = true
}

// unanswered records that the persona got no answer that it accepts.
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

// reopen replaces the visit's socket by a new one, as open does. If that fails, it records the
// reason in the report.
func (v *visit) reopen(port uint16) error {
	err := v.open(port)
	if err != nil {
		v.skip("%v", err)
	}
	return err
}

// endAndReopen ends the transfer with an ERROR, and opens a new socket for the next transfer. It
// returns false if that fails.
func (v *visit) endAndReopen() bool {
	v.sendAbort("closed")
	return v.reopen(0) == nil
}

// renamed changes the rule of a finding from one name to another, because the persona knows a more
// exact rule. It reports whether there is such a finding.
func (v *visit) renamed(from, to string) bool {
	for i := range v.report.Findings {
		if f := &v.report.Findings[i]; f.Rule == from {
			f.Rule = to
			return true
		}
	}
	return false
}

// amount describes how much of the file the visit has fetched.
func (v *visit) amount() string {
	if v.report.Whole {
		return fmt.Sprintf("%d bytes", len(v.content))
	}
	return fmt.Sprintf("%d bytes or more", len(v.content))
}
