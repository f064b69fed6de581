// Package sim simulates a network and a disk for tests. The network has the hosts, ports and
// links that a test wants, and the disk is as slow or as full as the test wants:
//
//	n := sim.New(seed)
//	n.Default = sim.Link{Latency: 5 * time.Millisecond, Loss: 0.01}
//	server, client := n.Host("192.0.2.1"), n.Host("192.0.2.2")
//	conn, err := server.Listen(ctx, netip.MustParseAddrPort("192.0.2.1:69"), udp.Config{})
//
// A [Conn] behaves like a udp.Conn, including its oddities. It waits only for channels and for timers
// of package time, so that hours pass in an instant inside a bubble of testing/synctest. Whether a
// datagram is lost, duplicated or delayed depends only on random numbers from the seed.
package sim

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// A Link is one direction of the path between two hosts. The zero Link loses nothing and takes no
// time.
type Link struct {
	Latency time.Duration
	Jitter  time.Duration // upper bound of a random addition to Latency; datagrams nevertheless arrive in order
	Rate    int           // bytes a second; 0 means no bound
	Queue   time.Duration // the longest wait in the queue before a datagram is dropped; 0 means 100 ms

	Loss      float64 // probability that a datagram is lost
	Duplicate float64 // probability that a datagram is sent twice
	Reorder   float64 // probability that a datagram is delayed, so that later ones may arrive before it
	Down      bool    // all datagrams are lost
}

const (
	defaultQueue = 100 * time.Millisecond

	// overhead is the number of bytes that UDP, IP and Ethernet add to the data of a datagram.
	overhead = 8 + 20 + 18

	// spurious is the inverse of the probability that a waiting Read returns for no reason.
	spurious = 32
)

// A Packet is a datagram on its way. Its Data may be used only during the call that it is passed to.
type Packet struct {
	From, To netip.AddrPort
	Data     []byte
}

// A Network connects hosts. Set its exported fields before using it.
type Network struct {
	Default  Link // the link of all paths for which neither Connect nor Route was called
	Messages int  // the largest number of messages that one Read returns; 0 means 1
	Segments int  // the preferred number of datagrams in a message to send; 0 means 1
	Glue     bool // Read combines datagrams of the same peer and size into one message, as UDP_GRO does

	// Tap, if set, is called for each datagram before its link handles it, and returns whether to
	// forward the datagram. It must not call the Network.
	Tap func(Packet) bool

	mu    sync.Mutex
	rng   *rand.Rand
	hosts map[netip.Addr]*Host
	pipes map[[2]netip.Addr]*pipe
	seq   uint16 // number of ports that freePort has tried
}

// A pipe is the path from one address to another. It has the properties of a Link.
type pipe struct {
	Link
	free   time.Time // when the link can send the next datagram
	latest time.Time // latest arrival time so far; an undelayed datagram does not arrive earlier
}

// New returns a network without hosts.
func New(seed uint64) *Network {
	return &Network{
		rng:   rand.New(rand.NewPCG(seed, 1)),
		hosts: map[netip.Addr]*Host{},
		pipes: map[[2]netip.Addr]*pipe{},
	}
}

// Host returns the host that has the first of the addresses. If there is no such host, it creates
// one that has all of the addresses.
func (n *Network) Host(addrs ...string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h := n.hosts[netip.MustParseAddr(addrs[0])]; h != nil {
		return h
	}
	h := &Host{net: n, ports: map[uint16][]*Conn{}}
	for _, s := range addrs {
		a := netip.MustParseAddr(s)
		h.addrs = append(h.addrs, a)
		n.hosts[a] = h
	}
	return h
}

// Connect sets the path between two addresses, the same in both directions.
func (n *Network) Connect(a, b string, l Link) {
	n.Route(a, b, l)
	n.Route(b, a, l)
}

// Route sets one direction of a path. Datagrams that are already under way still arrive.
func (n *Network) Route(from, to string, l Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pipe(netip.MustParseAddr(from), netip.MustParseAddr(to)).Link = l
}

// Cut makes the network drop all datagrams between two addresses from now on.
func (n *Network) Cut(a, b string) { n.Connect(a, b, Link{Down: true}) }

// pipe returns the path from one address to another. The caller holds mu.
func (n *Network) pipe(from, to netip.Addr) *pipe {
	key := [2]netip.Addr{from, to}
	p := n.pipes[key]
	if p == nil {
		p = &pipe{Link: n.Default}
		n.pipes[key] = p
	}
	return p
}

// send puts a datagram on its way. Its error is the one that the sender's Write returns. If no socket
// receives the datagram, the network sends a report back, which the sender gets if it wants such
// reports. The caller holds mu.
func (n *Network) send(now time.Time, from *Conn, p Packet) error {
	to := n.hosts[p.To.Addr()]
	if to == nil {
		return syscall.ENETUNREACH
	}
	if n.Tap != nil && !n.Tap(p) {
		return nil
	}
	link := n.pipe(p.From.Addr(), p.To.Addr())
	copies := 1
	if n.chance(link.Duplicate) {
		copies = 2
	}
	for range copies {
		at, ok := n.travel(now, link, len(p.Data))
		if !ok {
			continue
		}
		if dst := to.at(p.From, p.To); dst != nil {
			dst.arrive(arrival{at: at, from: p.From, to: p.To.Addr(), data: bytes.Clone(p.Data)})
		} else if at, ok = n.travel(at, n.pipe(p.To.Addr(), p.From.Addr()), 0); ok && from.refusals {
			from.arrive(arrival{at: at, from: p.To, refused: true})
		}
	}
	return nil
}

// travel returns when a datagram arrives, and false if it is lost. The caller holds mu.
func (n *Network) travel(now time.Time, p *pipe, size int) (at time.Time, ok bool) {
	if p.Down || n.chance(p.Loss) {
		return time.Time{}, false
	}
	at = now
	if p.Rate > 0 {
		queue := p.Queue
		if queue == 0 {
			queue = defaultQueue
		}
		if p.free.Sub(now) > queue {
			return time.Time{}, false
		}
		if p.free.After(at) {
			at = p.free
		}
		at = at.Add(time.Duration(size+overhead) * time.Second / time.Duration(p.Rate))
		p.free = at
	}
	at = at.Add(p.Latency)
	if p.Jitter > 0 {
		at = at.Add(time.Duration(n.rng.Int64N(int64(p.Jitter))))
	}
	if n.chance(p.Reorder) {
		back := 2*(p.Latency+p.Jitter) + time.Millisecond
		return at.Add(time.Duration(n.rng.Int64N(int64(back)))), true
	}
	if at.Before(p.latest) {
		at = p.latest
	}
	p.latest = at
	return at, true
}

// chance returns true with the given probability. The caller holds mu.
func (n *Network) chance(probability float64) bool {
	return probability > 0 && n.rng.Float64() < probability
}
