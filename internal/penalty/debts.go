package penalty

import (
	"container/heap"
	"net/netip"
	"time"
)

// An Offence is an event that costs a source some time.
type Offence int

// The offences, with their initial cost. OpenSSH has the same four under the names authfail,
// noauth, grace-exceeded and crash.
const (
	BadLogin  Offence = iota // a wrong password: 5 s, which only keeps passwords from being checked
	NoLogin                  // the connection ended before the login, perhaps after trying wrong keys: 1 s
	TooSlow                  // did not log in within the time limit: 10 s
	Malformed                // sent data that no client sends: 90 s
)

// cost returns the initial cost of an offence.
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

// These are the bounds of penalties. Threshold and Longest are min and max of OpenSSH.
const (
	Threshold = 15 * time.Second // a source that owes this much is refused
	Longest   = 10 * time.Minute // the most that a source can owe

	// calm is how long a source must be free of debt before one of its strikes is forgotten.
	calm = 10 * time.Minute

	// maxStrikes bounds the growth of costs: the last step multiplies them by 64, so that a wrong
	// password costs 320 s.
	maxStrikes = 6

	// maxSources is how many networks of one size are remembered, at about 200 bytes each.
	maxSources = 1 << 15
)

// A debt is the debt of one network.
type debt struct {
	net     netip.Prefix
	until   time.Time // when it is paid in full
	refused bool      // the debt has reached Threshold; stays true until it is paid
	strikes int       // how many times that happened recently
	index   int       // in the heap
}

// forgotten returns when nothing about the debt needs to be remembered any more.
func (d *debt) forgotten() time.Time {
	return d.until.Add(time.Duration(d.strikes) * calm)
}

// A table keeps the debts of networks of one size.
type table struct {
	byNet map[netip.Prefix]*debt
	queue queue
}

// refused returns how much longer a network is refused, or 0.
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
// This choice decides how much work it takes attackers to have their debt dropped. If the oldest
// debt were dropped, or a random one, they could clear it with one failure from each of as many
// fresh addresses as the table has entries. This way, all these addresses must first owe more than
// the attackers do, and are refused on the way, as the attackers were.
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

// A queue is a heap, with the debt that is forgotten first at its head.
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
