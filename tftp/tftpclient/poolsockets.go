package tftpclient

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/haul-project/haul/udp"
)

const (
	// lingerFor is how long a socket remembers the transfer IDs of finished transfers. During that
	// time it takes no new transfer that could be confused with one of them.
	lingerFor = 10 * time.Second

	// maxPoolIDs is how many transfer IDs of servers one socket remembers, including those of
	// finished transfers. Beyond that it takes no new transfer.
	maxPoolIDs = 4096

	// keptPoolServers is how many servers a loop keeps in memory even if no request or socket needs
	// them.
	keptPoolServers = 64

	// maxPoolDallying is how many completed downloads may still answer repeats in one loop, in
	// addition to the transfers under way.
	maxPoolDallying = 1024
)

// A poolSockets holds the sockets of a loop, and the requests that wait for a socket.
type poolSockets struct {
	socketSettings
	most      int           // largest number of open sockets
	open      int           // number of open sockets
	list      []*poolSocket // indexed by the member's tag; nil if unused
	tags      []int         // free indices of list
	servers   map[netip.Addr]*poolServer
	ready     fifo[*poolServer] // servers with waiting requests, for which the method next will look for a socket
	stuck     []*poolServer     // servers with waiting requests, for which the method next has found no socket
	lingering fifo[lingeringID] // transfer IDs and requests to forget, ordered by the time to forget them
	// dallied holds transfers in the order in which they began to dally; some of them no longer
	// dally.
	dallied fifo[poolTransferUse]
	free    []*poolSocket // closed sockets for reuse; only if each transfer has its own socket
}

// A socketSettings holds the settings of a poolSockets.
type socketSettings struct {
	set           *udp.Set            // the set of the loop
	private       bool                // each transfer has its own socket
	manyPerServer bool                // Pool.ManyPerServer
	stopDallying  func(*poolTransfer) // ends the dallying of a download, and removes the download from its socket
}

// A poolServer is a host that the loop keeps in memory. Either requests for the host wait, or a
// socket has a transfer with it, or had one within lingerFor.
type poolServer struct {
	addr   netip.Addr
	queue  fifo[*poolRequest]
	listed bool // the server is in poolSockets.ready or poolSockets.stuck
	stuck  int  // position of the server in poolSockets.stuck, from 1; 0 if it is not there
	// single means that the server answers from the port to which requests are sent, so each of its
	// transfers needs its own socket.
	single bool
	uses   int // number of sockets whose field hosts contains the server
}

// A poolSocket is one socket with the transfers that use it.
type poolSocket struct {
	sockets *poolSockets
	member  *udp.Member                      // the socket; nil once it is closed
	only    *poolTransfer                    // the transfer, if each transfer has its own socket
	live    int                              // number of transfers that use the socket
	peers   map[netip.AddrPort]*poolTransfer // transfers by the server's transfer ID; nil for a finished transfer
	hosts   map[netip.Addr]*poolUse          // what the socket keeps for each host; nil if each transfer has its own socket

	dallying  int       // number of transfers that only answer repeats
	lastDally time.Time // when the latest transfer began to dally
}

// A poolUse is the state that a socket keeps for a host.
type poolUse struct {
	server     *poolServer
	live       int           // number of transfers with the host that use the socket
	asking     *poolTransfer // the transfer whose request is not answered yet; nil if all requests are answered
	lingering  int           // number of transfer IDs and requests of finished transfers that are still remembered
	unanswered int           // how many of the `lingering` are requests that may still be answered
}

// A lingeringID is a transfer ID, or an unanswered request, that the socket will forget.
type lingeringID struct {
	socket *poolSocket
	use    *poolUse
	peer   netip.AddrPort // the server's transfer ID; zero for an unanswered request
	until  time.Time
}

func newPoolSockets(settings socketSettings, most int) poolSockets {
	return poolSockets{socketSettings: settings, most: most, servers: make(map[netip.Addr]*poolServer)}
}

// of returns the socket of x, which must have one.
func (ss *poolSockets) of(x *poolTransfer) *poolSocket { return ss.list[x.member.Tag] }

// server returns the entry for a host, and creates it if necessary.
func (ss *poolSockets) server(a netip.Addr) *poolServer {
	s := ss.servers[a]
	if s == nil {
		s = &poolServer{addr: a}
		ss.servers[a] = s
	}
	return s
}

// enqueue adds a request to the end of its host's queue.
func (ss *poolSockets) enqueue(q *poolRequest) {
	s := ss.server(q.addr)
	s.queue.push(q)
	ss.makeReady(s)
}

// enqueueFirst adds a request to the front of its host's queue.
func (ss *poolSockets) enqueueFirst(q *poolRequest) {
	s := ss.server(q.addr)
	s.queue.pushFirst(q)
	ss.makeReady(s)
}

// makeReady puts a server with requests into ready, the queue that the method next checks.
func (ss *poolSockets) makeReady(s *poolServer) {
	if !s.listed && s.queue.len() > 0 {
		s.listed = true
		ss.ready.push(s)
	}
}

// startable reports whether the method next may return a request.
func (ss *poolSockets) startable() bool { return ss.ready.len() > 0 }

// unstick makes the method next look again for sockets for all servers in stuck.
func (ss *poolSockets) unstick() {
	for _, s := range ss.stuck {
		s.stuck = 0
		ss.ready.push(s)
	}
	clear(ss.stuck)
	ss.stuck = ss.stuck[:0]
}

// drop removes a server from memory if no request or socket needs it, unless only few servers are
// known.
func (ss *poolSockets) drop(s *poolServer) {
	if len(ss.servers) > keptPoolServers && s.queue.len() == 0 && s.uses == 0 && !s.listed {
		delete(ss.servers, s.addr)
	}
}

// dequeue removes any one request and returns it. It returns nil if no request waits.
func (ss *poolSockets) dequeue() *poolRequest {
	ss.unstick()
	for ss.ready.len() > 0 {
		s := *ss.ready.first()
		if s.queue.len() > 0 {
			return s.queue.pop()
		}
		s.listed = false
		ss.ready.pop()
		ss.drop(s)
	}
	return nil
}

// next takes a request out of its queue, and returns it with a socket, or with the error from
// opening one. It returns nil if there is currently no socket for any request. Hosts take turns.
func (ss *poolSockets) next() (*poolRequest, *poolSocket, error) {
	for ss.ready.len() > 0 {
		s := ss.ready.pop()
		s.listed = false
		if s.queue.len() == 0 {
			ss.drop(s)
			continue
		}
		socket, err := ss.choose(s)
		if socket == nil && err == nil {
			s.listed = true
			ss.stuck = append(ss.stuck, s)
			s.stuck = len(ss.stuck)
			continue
		}
		q := s.queue.pop()
		ss.makeReady(s)
		if ss.private {
			ss.drop(s) // a private socket has no hosts, so no socket refers to s
		}
		return q, socket, err
	}
	return nil, nil, nil
}

// choose returns a socket for a transfer with a server, or nil if no socket is available.
func (ss *poolSockets) choose(s *poolServer) (*poolSocket, error) {
	if ss.open < ss.most || ss.private && ss.stopOldest() {
		return ss.create(s.addr)
	}
	if ss.private {
		return nil, nil
	}
	var best, spare *poolSocket
	for _, socket := range ss.list {
		switch {
		case socket == nil:
		case socket.suits(s) && (best == nil || socket.live < best.live):
			best = socket
		case socket.live == socket.dallying && (spare == nil || socket.lastDally.Before(spare.lastDally)):
			spare = socket
		}
	}
	if best != nil || spare == nil {
		return best, nil
	}
	for _, x := range spare.transfers() {
		ss.stopDallying(x)
	}
	return ss.create(s.addr)
}

// stopOldest ends the dallying of the download that has dallied longest. It returns false if no
// download dallies.
func (ss *poolSockets) stopOldest() bool {
	for ss.dallied.len() > 0 {
		if r := ss.dallied.pop(); r.dallies() {
			ss.stopDallying(r.transfer)
			return true
		}
	}
	return false
}

// suits reports whether the socket can take another transfer with a server.
func (k *poolSocket) suits(s *poolServer) bool {
	if len(k.peers) >= maxPoolIDs || k.only != nil {
		return false
	}
	if is4 := s.addr.Is4(); k.hosts == nil || is4 != k.is4() {
		return false
	}
	u := k.hosts[s.addr]
	return u == nil || k.sockets.manyPerServer && !s.single && u.asking == nil && u.unanswered == 0
}

// is4 reports whether the socket is for IPv4. The hosts of a socket all have the same address
// family.
func (k *poolSocket) is4() bool {
	for a := range k.hosts {
		return a.Is4()
	}
	return false
}

// create opens a socket of the same address family as `to`.
func (ss *poolSockets) create(to netip.Addr) (*poolSocket, error) {
	m, err := ss.set.Open(netip.AddrPortFrom(to, 0))
	if err != nil {
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			err = fmt.Errorf("%w: raise the limit of open files (ulimit -n), or use fewer sockets", err)
		}
		return nil, err
	}
	ss.open++
	var k *poolSocket
	if n := len(ss.free); n > 0 {
		k = ss.free[n-1]
		ss.free = ss.free[:n-1]
	} else {
		k = &poolSocket{sockets: ss}
	}
	k.member = m
	if n := len(ss.tags); n > 0 {
		m.Tag = ss.tags[n-1]
		ss.tags = ss.tags[:n-1]
		ss.list[m.Tag] = k
	} else {
		m.Tag = len(ss.list)
		ss.list = append(ss.list, k)
	}
	if !ss.private {
		k.peers, k.hosts = make(map[netip.AddrPort]*poolTransfer), make(map[netip.Addr]*poolUse)
	}
	return k, nil
}

// add assigns the socket to a transfer.
func (k *poolSocket) add(x *poolTransfer) {
	x.member = k.member
	k.live++
	if k.sockets.private {
		k.only = x
		k.member.SetPeer(x.server)
		return
	}
	u := k.hosts[x.server.Addr()]
	if u == nil {
		s := k.sockets.server(x.server.Addr())
		s.uses++
		u = &poolUse{server: s}
		k.hosts[s.addr] = u
	}
	u.live++
	u.asking = x
}

// find returns the transfer to which a datagram from peer belongs. For the transfer ID of a
// finished transfer it returns nil and true, and for a stranger nil and false.
func (k *poolSocket) find(peer netip.AddrPort) (x *poolTransfer, known bool) {
	if k.sockets.private {
		if x = k.only; x.peer.IsValid() && x.peer != peer || x.server.Addr() != peer.Addr() {
			return nil, false
		}
		return x, true
	}
	if x, known = k.peers[peer]; known {
		return x, true
	}
	if u := k.hosts[peer.Addr()]; u != nil && u.asking != nil {
		return u.asking, true
	}
	return nil, false
}

// answered records the server's transfer ID. It connects a private socket, unless the transfer
// expects no more packets after this one.
func (k *poolSocket) answered(now time.Time, x *poolTransfer, peer netip.AddrPort, last bool) error {
	x.peer = peer
	if k.sockets.private {
		if last {
			return nil // connecting the socket would cost more than it gains
		}
		return k.member.Connect(peer)
	}
	u := k.hosts[peer.Addr()]
	u.asking = nil
	k.peers[peer] = x
	if peer == x.server {
		u.server.single = true
	}
	if x.machine.Stats().Resent > 0 {
		k.linger(now, u, netip.AddrPort{}) // the server may answer the repeated request as well
	}
	k.sockets.retry(u.server)
	return nil
}

// linger remembers peer, a transfer ID that is no longer in use. If peer is zero, it remembers a
// request that may still be answered.
func (k *poolSocket) linger(now time.Time, u *poolUse, peer netip.AddrPort) {
	u.lingering++
	if !peer.IsValid() {
		u.unanswered++
	}
	k.sockets.lingering.push(lingeringID{k, u, peer, now.Add(lingerFor)})
}

// retry makes the method next look again for a socket for s, if s is in stuck.
func (ss *poolSockets) retry(s *poolServer) {
	if s.stuck == 0 {
		return
	}
	last := len(ss.stuck) - 1
	moved := ss.stuck[last]
	ss.stuck[s.stuck-1], moved.stuck = moved, s.stuck
	ss.stuck[last] = nil
	ss.stuck, s.stuck = ss.stuck[:last], 0
	ss.ready.push(s)
}

// dally records that a transfer only answers repeats from now on, so that another transfer may use
// its socket.
func (ss *poolSockets) dally(now time.Time, x *poolTransfer) {
	k := ss.of(x)
	k.dallying, k.lastDally = k.dallying+1, now
	ss.unstick()
	ss.dallied.push(poolTransferUse{x, x.request})
	if ss.dallied.len() <= 2*maxPoolDallying {
		return
	}
	for range ss.dallied.len() {
		if r := ss.dallied.pop(); r.dallies() {
			ss.dallied.push(r)
		}
	}
}

// remove removes a transfer from its socket, and closes the socket when it has no transfer left.
func (ss *poolSockets) remove(now time.Time, x *poolTransfer) {
	k := ss.of(x)
	x.member = nil
	k.live--
	if x.dallying {
		k.dallying--
	}
	if k.live == 0 {
		ss.close(k)
		return
	}
	u := k.hosts[x.server.Addr()]
	u.live--
	if u.asking == x {
		u.asking = nil
	}
	if x.peer.IsValid() {
		k.peers[x.peer] = nil
	}
	k.linger(now, u, x.peer)
	ss.retry(u.server)
}

// close closes a socket and forgets its state.
func (ss *poolSockets) close(k *poolSocket) {
	ss.list[k.member.Tag] = nil
	ss.tags = append(ss.tags, k.member.Tag)
	k.member.Close()
	k.member, k.only = nil, nil
	if ss.open--; ss.private {
		ss.free = append(ss.free, k)
	}
	for _, u := range k.hosts {
		u.server.uses--
		ss.drop(u.server)
	}
	ss.unstick()
}

// forget removes the transfer IDs and requests that have been remembered for lingerFor.
func (ss *poolSockets) forget(now time.Time) {
	for ss.lingering.len() > 0 && !ss.lingering.first().until.After(now) {
		r := ss.lingering.pop()
		if r.socket.member == nil {
			continue
		}
		if r.peer.IsValid() && r.socket.peers[r.peer] == nil {
			delete(r.socket.peers, r.peer)
		}
		r.use.lingering--
		if !r.peer.IsValid() {
			r.use.unanswered--
		}
		s := r.use.server
		if r.use.live+r.use.lingering == 0 {
			delete(r.socket.hosts, s.addr)
			s.uses--
		}
		ss.retry(s)
		ss.drop(s)
	}
}

// nextFree returns when forget may free a socket for a waiting request, or the zero time for never.
func (ss *poolSockets) nextFree() time.Time {
	if ss.lingering.len() == 0 || len(ss.stuck) == 0 {
		return time.Time{}
	}
	return ss.lingering.first().until
}

// transfers returns all transfers that have a socket.
func (ss *poolSockets) transfers() []*poolTransfer {
	var all []*poolTransfer
	for _, k := range ss.list {
		if k != nil {
			all = append(all, k.transfers()...)
		}
	}
	return all
}

func (k *poolSocket) transfers() []*poolTransfer {
	if k.sockets.private {
		return []*poolTransfer{k.only}
	}
	var all []*poolTransfer
	for _, x := range k.peers {
		if x != nil {
			all = append(all, x)
		}
	}
	for _, u := range k.hosts {
		if u.asking != nil {
			all = append(all, u.asking)
		}
	}
	return all
}
