package boot

import (
	"math"
	"slices"
	"time"
)

// A Simulated is the result of a simulation: how the machines of a [Site] booted.
type Simulated struct {
	Up       []time.Duration // when machines came up, sorted
	Failed   int
	Failures map[string]int
	Count    Count
	CPU      time.Duration // CPU time of all replicas

	StoreReads int   // files that replicas fetched from the store
	StoreBytes int64 // bytes that left the store
}

// epoch is the start of a simulation as a machine sees it.
var epoch = time.Unix(0, 0)

// never is a time later than all others, in seconds.
var never = math.Inf(1)

// A site is a running simulation. Times are in seconds since its start.
type site struct {
	*Site
	wire, cpu [2]float64
	cap       [2]float64 // the highest rate of one machine, in bytes of content a second
	now       float64
	machines  []Machine
	replicas  []replica
	timers    heap // waiting machines, by the time at which to call Expire
	live      int  // number of replicas that are not lost
	out       Simulated
	used      float64 // CPU, seconds
	sent      float64 // bytes
}

// A replica serves loaders and images. All machines that fetch the same kind of file from it get
// the same rate.
type replica struct {
	down  bool
	since float64 // the time up to which served is computed
	kinds [2]kind
}

// A kind holds all transfers of one kind, loader or image, from one replica.
type kind struct {
	flows  heap    // machines, by the value of served at which their transfer ends
	served float64 // bytes that a machine would have received if it had been connected from the start
	rate   float64 // bytes a second for each machine
	filled float64 // when the cache contains the whole file; never until someone requests it
}

// Simulate boots the machines of a site in virtual time, with the same [Machine] that runs against
// real servers. All transfers of a replica share its link and its cores fairly. A cache serves a
// file while it fetches it.
func Simulate(conf Site) (Simulated, error) {
	if err := conf.Check(); err != nil {
		return Simulated{}, err
	}
	if conf.Loader > 0 {
		conf.Plan.Loaders = conf.Replicas
	}
	if conf.Image > 0 {
		conf.Plan.Images = conf.Replicas
	}
	s := &site{Site: &conf, live: conf.Replicas}
	s.wire, s.cpu = conf.perByte()
	window := float64(max(1, conf.Plan.Firmware.Window) * conf.Plan.Firmware.BlockSize)
	s.cap = [2]float64{min(window/conf.RoundTrip.Seconds(), conf.MachineLink/s.wire[0]), conf.MachineLink / s.wire[1]}
	s.out.Failures = map[string]int{}
	s.replicas = make([]replica, conf.Replicas)
	for i := range s.replicas {
		s.replicas[i].chill()
	}
	s.run(conf.Arrival.Times(conf.Machines, conf.Plan.Seed))
	for i := range s.machines {
		s.out.Count.Add(s.machines[i].Count())
	}
	s.out.CPU = seconds(s.used)
	if !conf.Cache {
		s.out.StoreBytes = int64(s.sent)
	}
	slices.Sort(s.out.Up)
	return s.out, nil
}

// run processes one event after the other.
func (s *site) run(arrivals []time.Duration) {
	lost, back := never, never
	if s.LostAt > 0 {
		lost = s.LostAt.Seconds()
	}
	if s.BackAt > 0 {
		back = s.BackAt.Seconds()
	}
	for {
		arrival := never
		if n := len(s.machines); n < len(arrivals) {
			arrival = arrivals[n].Seconds()
		}
		transfer, r, k := s.nextTransfer()
		next := min(arrival, transfer, s.timers.first(), lost, back)
		if next == never || s.over() && arrival == never {
			return
		}
		s.now = max(s.now, next)
		switch next {
		case lost:
			lost = never
			s.lose()
		case back:
			back = never
			s.restore()
		case arrival:
			s.machines = append(s.machines, s.Plan.Machine(len(s.machines)))
			n := len(s.machines) - 1
			s.machines[n].PowerOn(s.time())
			s.follow(n)
		case transfer:
			s.change(r, k)
		default:
			n := s.timers.pop()
			m := &s.machines[n]
			if m.Expire(s.time()) {
				m.Ended(s.time(), Broken, errSilent)
			}
			s.follow(n)
		}
	}
}

// errSilent is the cause of every failure in a simulation.
const errSilent = "a replica was lost"

// over reports whether all machines that were switched on are up or have failed.
func (s *site) over() bool { return len(s.out.Up)+s.out.Failed == len(s.machines) }

func (s *site) time() time.Time { return epoch.Add(seconds(s.now)) }

// nextTransfer returns the time and place of the next event of a transfer: the end of a transfer,
// or the moment when a cache contains the whole file.
func (s *site) nextTransfer() (at float64, replica, which int) {
	at = never
	for i := range s.replicas {
		r := &s.replicas[i]
		for k := range r.kinds {
			q := &r.kinds[k]
			if q.rate <= 0 {
				continue
			}
			if end := max(s.now, r.since+(q.flows.first()-q.served)/q.rate); end < at {
				at, replica, which = end, i, k
			}
			if q.filled < at && q.filled > r.since {
				at, replica, which = q.filled, i, k
			}
		}
	}
	return at, replica, which
}

// change handles the event that nextTransfer returned. It ends a transfer, if one is due.
func (s *site) change(r, k int) {
	s.advance(&s.replicas[r])
	q := &s.replicas[r].kinds[k]
	// A difference of less than a byte comes from rounding.
	if q.flows.first()-q.served > 0.5 {
		s.share(&s.replicas[r])
		return
	}
	n := q.flows.pop()
	s.share(&s.replicas[r])
	m := &s.machines[n]
	size := s.size(k)
	if m.Moved(s.time(), s.target(m, k), size) {
		m.Ended(s.time(), Vanished, "")
	} else {
		m.Ended(s.time(), Whole, "")
	}
	s.follow(n)
}

func (s *site) size(k int) int64 {
	if k == 0 {
		return s.Loader
	}
	return s.Image
}

// target returns the byte at which a machine's transfer ends: the end of the file, or the byte at
// which the machine loses power.
func (s *site) target(m *Machine, k int) int64 {
	size := s.size(k)
	if m.loses == m.order.Step {
		return max(m.got, min(size, int64(math.Ceil(m.losesA*float64(size)))))
	}
	return size
}

// follow carries out the order of a machine.
func (s *site) follow(n int) {
	m := &s.machines[n]
	switch o := m.Order(); o.Step {
	case Up:
		s.out.Up = append(s.out.Up, seconds(s.now))
	case Failed:
		s.out.Failed++
		s.out.Failures[m.Cause()]++
	case Load, Fetch:
		if r := s.route(o.Server); r >= 0 {
			s.begin(n, r, int(o.Step-Load))
			return
		}
		fallthrough // no replica answers, so the machine waits for its deadline
	default:
		s.timers.push(entry{m.Deadline().Sub(epoch).Seconds(), n})
	}
}

// route returns the replica that answers for a server, or -1 if no replica does. Replica 0 is the
// one that may be lost.
func (s *site) route(server int) int {
	if !s.replicas[server].down {
		return server
	}
	if s.live == 0 || s.now < s.LostAt.Seconds()+s.Withdraw.Seconds() {
		return -1
	}
	return (server + 1) % len(s.replicas)
}

// begin begins a transfer of kind k from replica r to machine n.
func (s *site) begin(n, r, k int) {
	rep := &s.replicas[r]
	s.advance(rep)
	q := &rep.kinds[k]
	m := &s.machines[n]
	if !s.Cache {
		s.out.StoreReads++
	} else if q.filled == never {
		q.filled = s.now + float64(s.size(k))/s.fillRate()
		s.out.StoreReads++
		s.out.StoreBytes += s.size(k)
	}
	q.flows.push(entry{q.served + float64(s.target(m, k)-m.got), n})
	s.share(rep)
}

// fillRate is the rate at which a replica gets a file from the store while all replicas fetch.
func (s *site) fillRate() float64 { return s.Store / s.wire[1] / float64(s.Replicas) }

// advance moves the transfers of a replica up to now.
func (s *site) advance(r *replica) {
	for k := range r.kinds {
		q := &r.kinds[k]
		moved := q.rate * (s.now - r.since)
		q.served += moved
		all := moved * float64(len(q.flows))
		s.used += all * s.cpu[k]
		s.sent += all
	}
	r.since = s.now
}

// share computes the rate of each transfer of a replica.
func (s *site) share(r *replica) {
	var n, limit [2]float64
	for k := range r.kinds {
		n[k], limit[k] = float64(len(r.kinds[k].flows)), s.cap[k]
		if s.Cache && s.now < r.kinds[k].filled {
			limit[k] = min(limit[k], s.fillRate()) // the replica can only pass on the bytes that the store sends
		}
	}
	x := min(fair(n, limit, s.wire, s.Link), fair(n, limit, s.cpu, s.Cores))
	if !s.Cache {
		x = min(x, fair(n, limit, [2]float64{s.wire[1], s.wire[1]}, s.Store/float64(max(1, s.live))))
	}
	for k := range r.kinds {
		r.kinds[k].rate = 0
		if n[k] > 0 {
			r.kinds[k].rate = min(x, limit[k])
		}
	}
}

// fair returns the rate that each transfer may have if all share a resource fairly. For each kind
// k, there are n[k] transfers, of which none is faster than limit[k], and a byte takes each[k] of
// the resource. have is the size of the resource.
func fair(n, limit, each [2]float64, have float64) float64 {
	low, high := 0, 1
	if limit[1] < limit[0] {
		low, high = 1, 0
	}
	if x := have / (n[0]*each[0] + n[1]*each[1]); x <= limit[low] {
		return x
	}
	return (have - n[low]*limit[low]*each[low]) / (n[high] * each[high]) // +Inf if there are no such transfers
}

// lose removes the first replica. Its machines receive no more data.
func (s *site) lose() {
	r := &s.replicas[0]
	s.advance(r)
	for k := range r.kinds {
		q := &r.kinds[k]
		for _, e := range q.flows {
			m := &s.machines[e.machine]
			left := max(0, e.at-q.served)
			m.Moved(s.time(), max(m.got, s.target(m, k)-int64(left)-1), 0)
			s.timers.push(entry{m.Deadline().Sub(epoch).Seconds(), e.machine})
		}
		q.flows, q.rate = nil, 0
	}
	r.down = true
	s.live--
	s.shareAll()
}

// restore returns the lost replica to service.
func (s *site) restore() {
	r := &s.replicas[0]
	if !r.down {
		return
	}
	r.down, r.since = false, s.now
	r.chill()
	s.live++
	s.shareAll()
}

// shareAll computes all rates again after the number of replicas has changed.
func (s *site) shareAll() {
	for i := range s.replicas {
		s.advance(&s.replicas[i])
		s.share(&s.replicas[i])
	}
}

// chill empties a replica's cache.
func (r *replica) chill() {
	for k := range r.kinds {
		r.kinds[k].filled = never
	}
}

// An entry is a machine in a heap.
type entry struct {
	at      float64
	machine int
}

// A heap has the entry with the smallest at first. Of equal entries, the one with the lowest number
// of a machine is first.
type heap []entry

func (h heap) less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].machine < h[j].machine
}

func (h heap) first() float64 {
	if len(h) == 0 {
		return never
	}
	return h[0].at
}

func (h *heap) push(e entry) {
	*h = append(*h, e)
	q := *h
	for i := len(q) - 1; i > 0 && q.less(i, (i-1)/2); i = (i - 1) / 2 {
		q[i], q[(i-1)/2] = q[(i-1)/2], q[i]
	}
}

func (h *heap) pop() (machine int) {
	q := *h
	machine = q[0].machine
	last := len(q) - 1
	q[0] = q[last]
	q = q[:last]
	*h = q
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if q.less(child, least) {
				least = child
			}
		}
		if least == i {
			return machine
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
}
