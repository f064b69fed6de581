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
	CPU      time.Duration // CPU time that all replicas used

	StoreReads int   // how many times a replica fetched a file from the store
	StoreBytes int64 // bytes that the store sent
}

// epoch is the time of the start of a simulation, as the machines see it.
var epoch = time.Unix(0, 0)

// never is a time, in seconds, that is later than all other times.
var never = math.Inf(1)

// A site is a simulation that is running. Times are in seconds since its start.
type site struct {
	*Site
	wire, cpu [2]float64
	cap       [2]float64 // highest rate of one machine for a loader and for an image, in bytes of content per second
	now       float64
	machines  []Machine
	replicas  []replica
	timers    heap // machines that wait, ordered by the time at which Expire must be called
	live      int  // number of replicas that are in service
	out       Simulated
	used      float64 // CPU time used, in seconds
	sent      float64 // bytes sent by all replicas
}

// A replica is a server of loaders and images. All machines that fetch the same kind of file from
// it get the same rate.
type replica struct {
	down  bool
	since float64 // time up to which kinds[..].served is computed
	kinds [2]kind
}

// A kind holds all transfers of one kind of file, loader or image, from one replica.
type kind struct {
	flows  heap    // machines, ordered by the value of `served` at which their transfer is complete
	served float64 // bytes that a machine would have received by now if it had been connected from the start
	rate   float64 // rate of each machine, in bytes per second
	filled float64 // when the replica's cache will contain the whole file; `never` until a machine requests the file
}

// Simulate boots the machines of a site in virtual time, with the same [Machine] that is used
// against real servers. All transfers of a replica share its link and its cores fairly. A replica
// with a cache serves a file while it is still fetching it.
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

// run processes the events in order, until all machines are up or have failed.
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

// nextTransfer returns the time, the replica and the kind of the next event that concerns
// transfers: either a transfer is complete, or a cache contains the whole file.
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

// change handles the event that nextTransfer returned.
func (s *site) change(r, k int) {
	s.advance(&s.replicas[r])
	q := &s.replicas[r].kinds[k]
	// Less than a byte is missing only because of rounding.
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

// target returns the number of bytes after which a machine's transfer ends: the size of the file,
// or the number at which the machine loses power.
func (s *site) target(m *Machine, k int) int64 {
	size := s.size(k)
	if m.loses == m.order.Step {
		return max(m.got, min(size, int64(math.Ceil(m.losesA*float64(size)))))
	}
	return size
}

// follow carries out the order of machine n.
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
		fallthrough // no replica answers, so the machine waits until its deadline
	default:
		s.timers.push(entry{m.Deadline().Sub(epoch).Seconds(), n})
	}
}

// route returns the replica that answers requests to a server, or -1 if no replica does. Only
// replica 0 can be lost.
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

// fillRate returns the rate at which a replica receives a file from the store while all replicas
// are fetching.
func (s *site) fillRate() float64 { return s.Store / s.wire[1] / float64(s.Replicas) }

// advance computes what a replica has transferred up to now.
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

// share computes the rates of a replica's transfers again.
func (s *site) share(r *replica) {
	var n, limit [2]float64
	for k := range r.kinds {
		n[k], limit[k] = float64(len(r.kinds[k].flows)), s.cap[k]
		if s.Cache && s.now < r.kinds[k].filled {
			limit[k] = min(limit[k], s.fillRate()) // a replica cannot send faster than the store sends to it
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

// fair returns the rate of each transfer if all transfers share a resource fairly. Of kind k there
// are n[k] transfers. None of them is faster than limit[k], and a byte uses each[k] of the
// resource. `have` is the amount of the resource per second.
func fair(n, limit, each [2]float64, have float64) float64 {
	low, high := 0, 1
	if limit[1] < limit[0] {
		low, high = 1, 0
	}
	if x := have / (n[0]*each[0] + n[1]*each[1]); x <= limit[low] {
		return x
	}
	// The faster kind shares what the slower one leaves over. The result is +Inf if the faster kind
	// has no transfers.
	return (have - n[low]*limit[low]*each[low]) / (n[high] * each[high])
}

// lose takes the first replica out of service. Its machines receive no more data.
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

// restore puts the lost replica back into service, with an empty cache.
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

// shareAll computes the rates of all replicas again, after the number of replicas in service has
// changed.
func (s *site) shareAll() {
	for i := range s.replicas {
		s.advance(&s.replicas[i])
		s.share(&s.replicas[i])
	}
}

// chill empties the replica's cache.
func (r *replica) chill() {
	for k := range r.kinds {
		r.kinds[k].filled = never
	}
}

// An entry is a machine in a heap. The heap is ordered by the field `at`.
type entry struct {
	at      float64
	machine int
}

// A heap is a priority queue: the entry with the smallest `at` comes first. Among equal entries,
// the machine with the lowest number comes first.
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
