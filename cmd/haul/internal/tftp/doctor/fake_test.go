package doctor

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// A fake is a bad server: a relay in front of haul's own server that may change every packet. With
// the zero lie, the relay changes nothing.
type fake struct {
	lie    lie
	server netip.AddrPort
	door   *net.UDPConn
	wg     sync.WaitGroup

	mu     sync.Mutex // held while a function of the lie runs
	flows  map[netip.AddrPort]*flow
	socket []*net.UDPConn // all sockets except door
	dead   bool
}

// A lie says which packets a fake changes, and how. Each function may be nil. A function receives
// one packet, and returns the packets to send instead.
type lie struct {
	request func(f *flow, q *ask) bool       // returns false to drop the request
	reply   func(f *flow, p []byte) [][]byte // changes a packet of the server
	client  func(f *flow, p []byte) [][]byte // changes a packet of the client, except requests
	// stray receives a packet from another address; it returns true if it handles the packet.
	stray func(f *flow, p []byte) bool
	from  string // address from which the fake answers
}

// A flow is the transfer of one client through the fake.
type flow struct {
	*fake
	client, tid     netip.AddrPort
	up, down, down2 *net.UDPConn // up is the socket to the server; down and down2 are sockets to the client
	asked           ask
	seen            [7]int // number of packets from the server and the client, by opcode
	heard           bool   // the client has sent a packet after its request
	block           int    // highest block that was sent to the client or acknowledged by it; for use by lies
	at              time.Time
	last            []byte
	blksize         int
	wrapped, done   bool
}

// An ask is a request, parsed into its fields.
type ask struct {
	op      transfer.Opcode
	name    string
	mode    string
	options []string
}

func (q *ask) get(name string) string {
	for i := 0; i+1 < len(q.options); i += 2 {
		if q.options[i] == name {
			return q.options[i+1]
		}
	}
	return ""
}

func (q *ask) has(name string) bool { return strings.Contains(strings.Join(q.options, " "), name) }

// drop removes an option.
func (q *ask) drop(name string) {
	for i := 0; i+1 < len(q.options); i += 2 {
		if q.options[i] == name {
			q.options = append(q.options[:i:i], q.options[i+2:]...)
			return
		}
	}
}

// newFake starts a fake in front of a server.
func newFake(t testing.TB, server netip.AddrPort, l lie) *fake {
	t.Helper()
	f := &fake{lie: l, server: server, flows: map[netip.AddrPort]*flow{}}
	f.door = f.listen(t, "127.0.0.1")
	f.wg.Go(f.serve)
	t.Cleanup(func() {
		f.door.Close()
		f.mu.Lock()
		f.dead = true
		for _, c := range f.socket {
			c.Close()
		}
		f.mu.Unlock()
		f.wg.Wait()
	})
	return f
}

func (f *fake) listen(t testing.TB, ip string) *net.UDPConn {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(ip)})
	if err != nil {
		if t != nil {
			t.Fatal(err)
		}
		panic(err)
	}
	return c
}

// elsewhere sends a packet to the client from another port.
func (w *flow) elsewhere(b []byte) {
	if w.down2 == nil {
		w.down2 = w.listen(nil, "127.0.0.1")
		w.socket = append(w.socket, w.down2)
	}
	_, _ = w.down2.WriteToUDPAddrPort(b, w.client)
}

// hush makes the fake drop all packets. Its ports stay in use.
func (f *fake) hush() {
	f.mu.Lock()
	f.dead = true
	f.mu.Unlock()
}

func (f *fake) addr() netip.AddrPort { return f.door.LocalAddr().(*net.UDPAddr).AddrPort() }

// serve handles requests, and all other packets to the port for requests.
func (f *fake) serve() {
	buf := make([]byte, maxPacket)
	for {
		n, from, err := f.door.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		f.mu.Lock()
		f.knock(buf[:n], netip.AddrPortFrom(from.Addr().Unmap(), from.Port()))
		f.mu.Unlock()
	}
}

func (f *fake) knock(b []byte, from netip.AddrPort) {
	if f.dead {
		return
	}
	w := f.flows[from]
	if w == nil {
		w = f.open(from)
	}
	if !isRequest(b) || len(b) < 4 {
		if f.lie.request == nil || f.lie.request(w, &ask{}) {
			_, _ = w.up.WriteToUDPAddrPort(b, f.server)
		}
		return
	}
	fields := strings.Split(string(b[2:]), "\x00")
	q := ask{op: transfer.OpcodeOf(b), name: fields[0]}
	if len(fields) > 2 {
		q.mode, q.options = fields[1], fields[2:len(fields)-1]
	}
	before := w
	if f.lie.request != nil && !f.lie.request(w, &q) {
		return
	}
	if w = f.flows[from]; w != before {
		w.asked = before.asked
	}
	w.asked, w.seen = q, [7]int{}
	if len(fields) < 3 {
		_, _ = w.up.WriteToUDPAddrPort(b, f.server)
		return
	}
	_, _ = w.up.WriteToUDPAddrPort(request(q.op, append([]string{q.name, q.mode}, q.options...)...), f.server)
}

// open creates a flow for a client.
func (f *fake) open(client netip.AddrPort) *flow {
	ip := f.lie.from
	if ip == "" {
		ip = "127.0.0.1"
	}
	w := &flow{fake: f, client: client, blksize: 512}
	w.up, w.down = f.listen(nil, "127.0.0.1"), f.listen(nil, ip)
	f.socket = append(f.socket, w.up, w.down)
	f.flows[client] = w
	f.wg.Go(func() { w.pump(w.up, w.fromServer) })
	f.wg.Go(func() { w.pump(w.down, w.fromClient) })
	return w
}

func (w *flow) pump(c *net.UDPConn, take func([]byte, netip.AddrPort)) {
	buf := make([]byte, maxPacket)
	for {
		n, from, err := c.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		w.mu.Lock()
		if !w.dead {
			take(buf[:n], netip.AddrPortFrom(from.Addr().Unmap(), from.Port()))
		}
		w.mu.Unlock()
	}
}

func (w *flow) fromServer(b []byte, from netip.AddrPort) {
	w.tid = from
	p := parsePacket(b)
	if int(p.op) < len(w.seen) {
		w.seen[p.op]++
	}
	if p.op == transfer.OptionAck {
		d := download{asks: w.asked.options}
		if a, ok := d.judge(&visit{report: &Report{}, env: &env{}}, p); ok {
			w.blksize = a.blockSize
		}
	}
	out := [][]byte{b}
	if w.lie.reply != nil {
		out = w.lie.reply(w, b)
	}
	for _, b := range out {
		w.toClient(b)
	}
}

func (w *flow) toClient(b []byte) { _, _ = w.down.WriteToUDPAddrPort(b, w.client) }

func (w *flow) toServer(b []byte) { _, _ = w.up.WriteToUDPAddrPort(b, w.tid) }

func (w *flow) fromClient(b []byte, from netip.AddrPort) {
	if from != w.client {
		if w.lie.stray == nil || !w.lie.stray(w, b) {
			_, _ = w.down.WriteToUDPAddrPort(fault(transfer.UnknownID, "not you"), from)
		}
		return
	}
	w.heard = true
	out := [][]byte{b}
	if w.lie.client != nil {
		out = w.lie.client(w, b)
	}
	for _, b := range out {
		w.toServer(b)
	}
}

// The functions below help to write lies.

// refuse answers with an ERROR each request for which `when` returns true.
func refuse(code transfer.ErrorCode, when func(q *ask) bool) func(*flow, *ask) bool {
	return func(f *flow, q *ask) bool {
		if when(q) {
			f.toClient(fault(code, "no"))
			return false
		}
		return true
	}
}

// swallow drops each request for which `when` returns true.
func swallow(when func(q *ask) bool) func(*flow, *ask) bool {
	return func(_ *flow, q *ask) bool { return !when(q) }
}

// strip removes those options for which `when` returns true.
func strip(when func(name string) bool) func(*flow, *ask) bool {
	return func(_ *flow, q *ask) bool {
		var kept []string
		for i := 0; i+1 < len(q.options); i += 2 {
			if !when(q.options[i]) {
				kept = append(kept, q.options[i], q.options[i+1])
			}
		}
		q.options = kept
		return true
	}
}

// oack changes the options of each OACK.
func oack(change func(f *flow, options []option) []option) func(*flow, []byte) [][]byte {
	return func(f *flow, b []byte) [][]byte {
		if transfer.OpcodeOf(b) != transfer.OptionAck {
			return [][]byte{b}
		}
		options, _ := parseOACK(b[2:])
		out := binary.BigEndian.AppendUint16(nil, uint16(transfer.OptionAck))
		for _, o := range change(f, options) {
			out = append(append(append(append(out, o.name...), 0), o.value...), 0)
		}
		return [][]byte{out}
	}
}

// value changes the value of one option of each OACK.
func value(name string, change func(string) string) func(*flow, []byte) [][]byte {
	return oack(func(_ *flow, options []option) []option {
		for i := range options {
			if options[i].name == name {
				options[i].value = change(options[i].value)
			}
		}
		return options
	})
}

// data changes each DATA. The function change receives the block number in the packet.
func data(change func(f *flow, block int, b []byte) [][]byte) func(*flow, []byte) [][]byte {
	return func(f *flow, b []byte) [][]byte {
		if transfer.OpcodeOf(b) != transfer.Data {
			return [][]byte{b}
		}
		return change(f, int(binary.BigEndian.Uint16(b[2:])), b)
	}
}
