package penalty

import (
	"container/heap"
	"net/netip"
	"time"
)

// An Offence is an event that adds to the debt of a source. A debt is a duration, which shrinks as
// time passes.
type Offence int

// The offences, with their costs before any strikes. OpenSSH has the same four under the names
// authfail, noauth, grace-exceeded and crash.
const (
	BadLogin  Offence = iota // a wrong password: 5 s. This debt only prevents password checks, not connections
	NoLogin                  // the connection ended before the login, perhaps after the peer tried wrong keys: 1 s
	TooSlow                  // the peer did not log in within the time limit: 10 s
	Malformed                // the peer sent data that no client sends: 90 s
)

// cost returns the cost of an offence before any strikes.
func (o Offence) cost() time.Duration {
	switch o {
	case NoLogin:
		return time.Second
	case TooSlow:
		return 10 * time.Second
	case Malformed:
		return 90 * time.Second
	}
	return 5 * time.Second
}

// These are the bounds of penalties. Threshold and Longest correspond to the parameters min and max
// of OpenSSH's PerSourcePenalties.
const (
	Threshold = 15 * time.Second // a source that owes this much is refused
	Longest   = 10 * time.Minute // the most that a source can owe

	// calm is how long a source must owe nothing before one of its strikes is forgotten: see
	// debt.strikes.
	calm = 10 * time.Minute

	// maxStrikes bounds the growth of costs. Each strike doubles the cost, so with 6 strikes it is
	// multiplied by 64, and a wrong password costs 320 s.
	maxStrikes = 6

	// maxSources is how many networks of one size are remembered, at about 200 bytes each.
	maxSources = 1 << 15
)

// A debt is the debt of one network.
type debt struct {
	net     netip.Prefix
	until   time.Time // when nothing is owed any more
	refused bool      // the debt has reached Threshold; stays true until nothing is owed
	// strikes is how many times the debt reached Threshold recently. Each period of the length
	// `calm` without a debt lowers strikes by one.
	strikes int
	index   int // index of the debt in table.queue
}

// forgotten returns the time from which the debt need not be remembered: nothing is owed, and all
// strikes are forgotten.
func (d *debt) forgotten() time.Time {
	return d.until.Add(time.Duration(d.strikes) * calm)
}

// A table keeps the debts of networks of one size.
type table struct {
	byNet map[netip.Prefix]*debt
	queue queue
}

// refused returns how much longer a network is refused, or 0 if it is not refused.
func (t *table) refused(now time.Time, net netip.Prefix) time.Duration {
	d := t.byNet[net]
	if d == nil || !d.refused {
		return 0
	}
	if d.until.Sub(now) > Longest { // the clock was set back
		d.until = now.Add(Longest)
		heap.Fix(&t.queue, d.index)
	}
	return max(0, d.until.Sub(now))
}

// fail adds the cost of an offence to the debt of a network.
func (t *table) fail(now time.Time, net netip.Prefix, cost time.Duration) {
	d := t.byNet[net]
	if d == nil {
		d = t.insert(now, net)
	}
	if free := now.Sub(d.until); free >= 0 {
		d.refused = false
		d.strikes = max(0, d.strikes-int(free/calm))
		d.until = now
	}
	owes := d.until.Sub(now) + cost<<d.strikes
	if owes = min(owes, Longest); owes >= Threshold && !d.refused {
		d.refused = true
		d.strikes = min(d.strikes+1, maxStrikes)
	}
	d.until = now.Add(owes)
	heap.Fix(&t.queue, d.index)
}

// insert adds a network. If the table is full, the debt that would be forgotten first is dropped,
// even if it is still owed.
//
// Attackers could try to have their own debt dropped by filling the table. If the oldest debt were
// dropped, or a random one, they would need only one failure from each of as many other addresses as
// the table has entries. With this choice, each of these addresses must first owe more than the
// attackers' own address does, and so is refused as well.
func (t *table) insert(now time.Time, net netip.Prefix) *debt {
	if t.byNet == nil {
		t.byNet = map[netip.Prefix]*debt{}
	}
	// Remove up to two entries for each new one, so that the table shrinks again after an attack.
	for range 2 {
		if len(t.queue) > 0 && (len(t.queue) >= maxSources || !now.Before(t.queue[0].forgotten())) {
			delete(t.byNet, t.queue[0].net)
			heap.Pop(&t.queue)
		}
	}
	d := &debt{net: net, until: now}
	t.byNet[net] = d
	heap.Push(&t.queue, d)
	return d
}

// A queue is a heap of debts. Its first element is the debt that can be forgotten first.
type queue []*debt

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].forgotten().Before(q[j].forgotten()) }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *queue) Push(x any) {
	d := x.(*debt)
	d.index = len(*q)
	*q = append(*q, d)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	d := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return d
}
