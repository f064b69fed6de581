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

	// maxPoolStrays is how many datagrams from strangers a loop answers per second.
	maxPoolStrays = 100
)

// A poolSockets holds the sockets of a loop, and the requests that wait for a socket.
type poolSockets struct {
	loop      *poolLoop
	most      int
	open      int
	list      []*poolSocket // indexed by the member's tag; nil if unused
	tags      []int         // free indices of list
	servers   map[netip.Addr]*poolServer
	ready     fifo[*poolServer] // servers with requests, and perhaps with a free socket
	stuck     []*poolServer     // servers with requests, but without a free socket
	lingering fifo[lingeringID] // ordered by time
	free      []*poolSocket     // closed sockets for reuse; used only if each transfer has its own socket
	chosen    *poolSocket       // the socket for the request that next returned
}

// A poolServer is a host for which requests wait, or which sockets know.
type poolServer struct {
	addr   netip.Addr
	queue  fifo[*poolRequest]
	listed bool // it is in ready or in stuck
	stuck  int  // its index in the list stuck, from 1; 0 for none
	single bool // it answers from the port of the request
	uses   int  // number of sockets that know it
}

// A poolSocket is one socket with the transfers that use it.
type poolSocket struct {
	loop   *poolLoop
	member *udp.Member // nil once closed
	only   *poolTransfer
	live   int                              // number of transfers
	peers  map[netip.AddrPort]*poolTransfer // transfers by the server's transfer ID; nil for a finished transfer
	hosts  map[netip.Addr]*poolUse

	dallying  int       // how many of these transfers only answer repeats
	lastDally time.Time // when the latest transfer began to dally
}

// A poolUse is the state that a socket keeps for a host.
type poolUse struct {
	server     *poolServer
	live       int           // number of transfers
	asking     *poolTransfer // the transfer whose request is not answered yet; nil for none
	lingering  int           // number of finished transfers that are still remembered
	unanswered int           // number of requests among them that may still be answered
}

// A lingeringID is a transfer ID, or an unanswered request, that the socket will forget.
type lingeringID struct {
	socket *poolSocket
	use    *poolUse
	peer   netip.AddrPort // zero for an unanswered request
	until  time.Time
}

func (ss *poolSockets) init(lp *poolLoop, most int) {
	*ss = poolSockets{loop: lp, most: most, servers: make(map[netip.Addr]*poolServer)}
}

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

// makeReady puts a server with requests into the queue that next checks.
func (ss *poolSockets) makeReady(s *poolServer) {
	if !s.listed && s.queue.len() > 0 {
		s.listed = true
		ss.ready.push(s)
	}
}

// startable reports whether next may return a request.
func (ss *poolSockets) startable() bool { return ss.ready.len() > 0 }

// unstick makes next check all servers again for which there was no socket.
func (ss *poolSockets) unstick() {
	for _, s := range ss.stuck {
		s.stuck = 0
		ss.ready.push(s)
	}
	clear(ss.stuck)
	ss.stuck = ss.stuck[:0]
}

// drop removes a server that no request or socket needs from memory, unless only few servers are
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

// next returns a request for which there is a socket, and stores that socket in chosen. It
// returns nil if there is no such request. Hosts take turns.
func (ss *poolSockets) next() *poolRequest {
	for ss.ready.len() > 0 {
		s := ss.ready.pop()
		s.listed = false
		if s.queue.len() == 0 {
			ss.drop(s)
			continue
		}
		socket, err := ss.choose(s)
		switch {
		case err != nil && ss.loop.active == 0:
			ss.loop.complete(s.queue.pop(), Result{}, err)
		case err != nil:
			ss.loop.slots, ss.most = ss.loop.active, max(1, ss.open)
			ss.makeReady(s)
			return nil
		case socket == nil:
			s.listed = true
			ss.stuck = append(ss.stuck, s)
			s.stuck = len(ss.stuck)
			continue
		}
		var q *poolRequest
		if err == nil {
			ss.chosen, q = socket, s.queue.pop()
		}
		ss.makeReady(s)
		if ss.loop.pool.private {
			ss.drop(s) // no socket will have s in its hosts
		}
		if q != nil {
			return q
		}
	}
	return nil
}

// choose returns a socket for a transfer with a server, or nil if no socket is available.
func (ss *poolSockets) choose(s *poolServer) (*poolSocket, error) {
	if ss.open < ss.most || ss.loop.pool.private && ss.loop.stopOldest() {
		return ss.create(s.addr)
	}
	if ss.loop.pool.private {
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
		ss.loop.stopDallying(x)
	}
	return ss.create(s.addr)
}

// dally records that a transfer of the socket only answers repeats from now on, so another transfer
// may use the socket.
func (k *poolSocket) dally(now time.Time) {
	k.dallying, k.lastDally = k.dallying+1, now
	k.loop.sockets.unstick()
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
	return u == nil || k.loop.pool.manyPerServer && !s.single && u.asking == nil && u.unanswered == 0
}

// is4 reports whether the socket is for IPv4, judging by the hosts that it knows.
func (k *poolSocket) is4() bool {
	for a := range k.hosts {
		return a.Is4()
	}
	return false
}

// create opens a socket.
func (ss *poolSockets) create(to netip.Addr) (*poolSocket, error) {
	m, err := ss.loop.set.Open(netip.AddrPortFrom(to, 0))
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
		k = &poolSocket{loop: ss.loop}
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
	if !ss.loop.pool.private {
		k.peers, k.hosts = make(map[netip.AddrPort]*poolTransfer), make(map[netip.Addr]*poolUse)
	}
	return k, nil
}

// add assigns the socket to a transfer.
func (k *poolSocket) add(x *poolTransfer) {
	k.live++
	if k.loop.pool.private {
		k.only = x
		k.member.SetPeer(x.server)
		return
	}
	u := k.hosts[x.server.Addr()]
	if u == nil {
		s := k.loop.sockets.server(x.server.Addr())
		s.uses++
		u = &poolUse{server: s}
		k.hosts[s.addr] = u
	}
	u.live++
	u.asking = x
}

// answered records the server's transfer ID.
func (k *poolSocket) answered(now time.Time, x *poolTransfer, peer netip.AddrPort) {
	x.peer = peer
	if k.loop.pool.private {
		if done, _ := x.machine.Done(); done && !k.loop.lossy {
			return // that packet completed the transfer, so connecting the socket would cost more than it gains
		}
		if err := k.member.Connect(peer); err != nil {
			x.abort(now, "client cannot connect", err)
		}
		return
	}
	u := k.hosts[peer.Addr()]
	u.asking = nil
	k.peers[peer] = x
	if peer == x.server {
		u.server.single = true
	}
	if x.machine.Stats().Resent > 0 {
		k.linger(now, u, netip.AddrPort{}) // the copy of the request may be answered, too
	}
	k.loop.sockets.retry(u.server)
}

// linger remembers a transfer ID that is no longer in use, or if peer is zero, a request that may
// still be answered.
func (k *poolSocket) linger(now time.Time, u *poolUse, peer netip.AddrPort) {
	u.lingering++
	if !peer.IsValid() {
		u.unanswered++
	}
	ss := &k.loop.sockets
	ss.lingering.push(lingeringID{k, u, peer, now.Add(lingerFor)})
}

// retry makes next check a server again for which there was no socket.
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

// remove removes a transfer from the socket, and closes the socket when it has no transfer left.
func (k *poolSocket) remove(now time.Time, x *poolTransfer) {
	k.live--
	if x.dallying {
		k.dallying--
	}
	if k.live == 0 {
		k.loop.sockets.close(k)
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
	k.loop.sockets.retry(u.server)
}

// close closes a socket and forgets its state.
func (ss *poolSockets) close(k *poolSocket) {
	ss.list[k.member.Tag] = nil
	ss.tags = append(ss.tags, k.member.Tag)
	k.member.Close()
	k.member, k.only = nil, nil
	if ss.open--; ss.loop.pool.private {
		ss.free = append(ss.free, k)
	}
	for _, u := range k.hosts {
		u.server.uses--
		ss.drop(u.server)
	}
	ss.unstick()
}

// forget drops all lingering entries whose time is over.
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

// nextFree returns when forget should be called next, or the zero time for never.
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
	if k.loop.pool.private {
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
