package boot

import "time"

// A Step is what a machine does at the moment.
type Step uint8

// These are the steps of a machine. Before PowerOn, a machine is Off.
const (
	Off    Step = iota
	Wait        // do nothing until Order.Until
	Load        // fetch the loader, by TFTP
	Fetch       // fetch the image, by HTTP, from Order.Offset
	Up          // done: it has booted
	Failed      // done: it has given up, see Machine.Cause
)

// An Order says what the driver must do for a machine now.
type Order struct {
	Step   Step
	Server int       // for Load and Fetch: index of the server, less than Plan.Loaders or Plan.Images
	Offset int64     // for Fetch: offset of the first byte that is missing
	Until  time.Time // for Wait: when to stop waiting
}

// An Outcome is the result of a transfer.
type Outcome uint8

// These are the outcomes of a transfer.
const (
	Whole    Outcome = iota
	Broken           // the server was silent or refused the connection, or the connection broke
	Busy             // the server is busy: HTTP 429 or 503
	Denied           // the server refused to send the file
	Wrong            // the content differs from what other machines received
	Vanished         // the machine lost power, as Moved reported
)

// A Machine is one machine that boots. [Plan.Machine] makes one.
type Machine struct {
	plan   *Plan
	dice   dice
	order  Order
	next   Step // step to begin after Wait
	got    int64
	heard  time.Time // when data last arrived or, before that, when the transfer began
	loses  Step      // step during which it loses power; Off if it never does
	losesA float64   // part of the file, 0 to 1, after which it loses power

	failures int // number of failures in a row
	denied   int

	count Count
	cause string
}

// A Count counts events and bytes of a machine.
type Count struct {
	Cycles  int   // how many times it lost power
	Reloads int   // how many times it fetched the loader again, from the start
	Resumes int   // how many times it resumed the image after an interruption
	Again   int   // how many times it fetched the image again, from the start
	Loader  int64 // bytes of loaders received, including those of failed transfers
	Image   int64 // bytes of images received, including those of failed transfers
}

// Machine returns machine number n, counted from 0. It is switched off.
func (p *Plan) Machine(n int) Machine {
	m := Machine{plan: p, dice: dice(p.Seed)}
	m.dice = dice(m.dice.next() ^ uint64(n)*0xd1342543de82ef95)
	if lost := m.dice.part() < p.Lost; lost {
		m.loses, m.losesA = Fetch, m.dice.part()
		if p.Images == 0 || p.Loaders > 0 && m.dice.below(2) == 0 {
			m.loses = Load
		}
	}
	return m
}

// PowerOn switches the machine on, so that it begins to boot.
func (m *Machine) PowerOn(now time.Time) {
	m.failures, m.denied, m.got = 0, 0, 0
	if m.plan.Loaders > 0 {
		m.begin(now, Load, -1)
		return
	}
	m.begin(now, Fetch, -1)
}

// begin begins a transfer, from a server other than `not` if possible.
func (m *Machine) begin(now time.Time, s Step, not int) {
	servers := m.plan.Loaders
	if s == Fetch {
		servers = m.plan.Images
	}
	m.order = Order{Step: s, Server: m.dice.other(servers, not), Offset: m.got}
	m.heard = now
}

// Order returns what the driver must do now.
func (m *Machine) Order() Order { return m.order }

// Count returns the machine's counts so far.
func (m *Machine) Count() Count { return m.count }

// Cause returns the reason why the machine failed.
func (m *Machine) Cause() string { return m.cause }

// Deadline returns the time at which the driver must call Expire; the zero time means never.
func (m *Machine) Deadline() time.Time {
	switch m.order.Step {
	case Wait:
		return m.order.Until
	case Load:
		return m.heard.Add(m.plan.Firmware.Silence)
	case Fetch:
		return m.heard.Add(m.plan.Stall)
	}
	return time.Time{}
}

// Expire must be called at the Deadline. It ends a wait that is over. During a transfer, it returns
// true if no data has arrived for too long. In that case the driver must abort the transfer, and
// report Broken to Ended.
func (m *Machine) Expire(now time.Time) (breakOff bool) {
	due := m.Deadline()
	switch {
	case due.IsZero() || now.Before(due):
		return false
	case m.order.Step != Wait:
		return true
	case m.next == Off:
		m.PowerOn(now)
	default:
		m.begin(now, m.next, m.order.Server)
	}
	return false
}

// Moved records that the first `got` bytes of a file have arrived. `size` is the size of the file,
// or 0 if it is not known. If Moved returns true, the machine loses power now: the driver must
// abandon the transfer without notifying the server, and report Vanished to Ended.
func (m *Machine) Moved(now time.Time, got, size int64) (vanish bool) {
	m.heard = now
	came := max(0, got-m.got)
	if m.order.Step == Load {
		m.count.Loader += came
	} else {
		m.count.Image += came
		if came > 0 {
			m.failures = 0 // the image can be resumed, so this is progress
		}
	}
	m.got = got
	return m.loses == m.order.Step && size > 0 && float64(got) >= m.losesA*float64(size)
}

// Restarted records that the server sends the image from its start, although a range was requested.
func (m *Machine) Restarted(now time.Time) {
	m.heard, m.got = now, 0
	m.count.Again++
}

// Ended records the outcome of a transfer. cause is the reason for a failure. There must be only a
// few different causes, as they are counted.
func (m *Machine) Ended(now time.Time, how Outcome, cause string) {
	at := m.order.Step
	switch how {
	case Whole:
		m.failures, m.denied, m.got = 0, 0, 0
		if at == Load && m.plan.Images > 0 {
			m.begin(now, Fetch, -1)
			return
		}
		m.order = Order{Step: Up}
	case Vanished:
		m.count.Cycles++
		m.loses = Off
		m.pause(now, Off, m.plan.Away)
	case Wrong:
		m.fail(cause)
	case Denied:
		servers := m.plan.Loaders
		if at == Fetch {
			servers = m.plan.Images
		}
		if m.denied++; m.denied >= servers {
			m.fail(cause)
			return
		}
		m.again(now, at, m.plan.Firmware.Pause, cause)
	case Busy:
		m.again(now, at, busyPause, cause)
	case Broken:
		wait := m.plan.Firmware.Pause
		if at == Fetch {
			wait = min(firstPause<<min(m.failures, 10), longPause)
		}
		m.again(now, at, wait, cause)
	}
}

// again repeats a transfer after a pause, or makes the machine fail if it has failed too often in a
// row.
func (m *Machine) again(now time.Time, at Step, wait time.Duration, cause string) {
	if m.failures++; m.failures >= m.plan.Tries {
		m.fail(cause)
		return
	}
	switch {
	case at == Load:
		m.got = 0 // TFTP has no ranges
		m.count.Reloads++
	case m.plan.NoResume:
		m.got = 0
		m.count.Again++
	default:
		m.count.Resumes++
	}
	m.pause(now, at, wait)
}

// pause makes the machine wait for the duration d before the step `next`. Its order still names the
// server that the machine asked last.
func (m *Machine) pause(now time.Time, next Step, d time.Duration) {
	m.next = next
	m.order = Order{Step: Wait, Server: m.order.Server, Until: now.Add(d)}
}

func (m *Machine) fail(cause string) {
	m.cause = cause
	m.order = Order{Step: Failed}
}

// Add adds the counts o of another machine to c.
func (c *Count) Add(o Count) {
	c.Cycles += o.Cycles
	c.Reloads += o.Reloads
	c.Resumes += o.Resumes
	c.Again += o.Again
	c.Loader += o.Loader
	c.Image += o.Image
}
