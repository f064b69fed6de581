package penalty

import (
	"container/heap"
	"net/netip"
	"time"
)

// An Offence is something that costs a source some time.
type Offence int

// The offences, with what they cost at first. OpenSSH has the same four under
// the names authfail, noauth, grace-exceeded and crash.
const (
	BadLogin  Offence = iota // a wrong password: 5 s, owed for passwords alone
	NoLogin                  // ended before the login, be it with keys that do not fit: 1 s
	TooSlow                  // had not logged in when the time for it was over: 10 s
	Malformed                // sent what no client sends: 90 s
)

// cost returns what an offence costs at first.
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

// The bounds of penalties. Threshold and Longest are min and max of OpenSSH.
const (
	Threshold = 15 * time.Second // from here on a source is refused
	Longest   = 10 * time.Minute // the most that a source can owe

	// calm is how long a source must be free of debt for one of its strikes to
	// be forgotten.
	calm = 10 * time.Minute

	// maxStrikes bounds the growth of prices: the last of them is 64-fold, so
	// that a wrong password costs 320 s.
	maxStrikes = 6

	// maxSources is how many networks of one size are kept in mind, at about
	// 200 bytes each.
	maxSources = 1 << 15
)

// A debt is what one network owes.
type debt struct {
	net     netip.Prefix
	until   time.Time // when all is paid
	refused bool      // it has reached Threshold, and holds to the end
	strikes int       // how often that has happened of late
	index   int       // in the heap
}

// forgotten returns when there will be nothing left to remember.
func (d *debt) forgotten() time.Time {
	return d.until.Add(time.Duration(d.strikes) * calm)
}

// A table keeps the debts of networks of one size.
type table struct {
	byNet map[netip.Prefix]*debt
	queue queue
}

// refused returns how long a network will be refused, or 0.
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

// fail adds what an offence costs to what a network owes.
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

// insert adds a network. If the table is full the debt that would be forgotten
// first makes room, even if it is still owed.
//
// This choice decides what it costs an attacker to be forgotten. Were it the
// oldest, or any, one failure from each of as many fresh addresses as the table has
// places would clear the attacker. This way all of them must first owe more than
// the attacker does, and be refused on the way, as the attacker was.
func (t *table) insert(now time.Time, net netip.Prefix) *debt {
	if t.byNet == nil {
		t.byNet = map[netip.Prefix]*debt{}
	}
	// Two out for one in: the table shrinks again after an attack.
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

// A queue has the debt at its head that is forgotten first.
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
