package pxe

import "time"

const (
	// repeatGap is the time within which a second copy of a DISCOVER counts as the same packet,
	// which has arrived on another path. Firmware repeats a DISCOVER only after 4 s or more.
	repeatGap = time.Second

	// provenTries is the number of offers in a row without effect after which the server stops
	// using a form that has worked before. By then, the firmware or a device on the path must have
	// changed.
	provenTries = 4

	// loaderMemory is the time after an iPXE was sent to a better loader, during which the
	// machine's next request is assumed to come from that loader.
	loaderMemory = 5 * time.Minute
)

// A formMemory records which form of answers a machine accepts. The zero value means that nothing
// is known about the machine.
//
// Firmware uses one offer for each power-on, and does not try another one after that. So if a form
// had no effect, the next DISCOVER gets the other form, even if it arrives minutes or days later.
// Firmware that uses no offer repeats its DISCOVER. The repeated one gets the other form too, so
// firmware that collects offers has both forms to choose from.
type formMemory struct {
	form   Form
	tries  uint8 // number of offers of this form since the machine last made progress
	proven bool  // the machine has made progress after an offer of this form at least once
	xid    uint32
	at     time.Time // when the latest offer was sent
}

// offer returns the memory after another offer; its field form is the form to use for that offer.
// first is the form to use if nothing is known about the machine.
func (f formMemory) offer(now time.Time, xid uint32, first Form) formMemory {
	switch {
	case f.form == AnyForm:
		f.form = first
	case f.tries > 0 && xid == f.xid && now.Sub(f.at) < repeatGap:
		return f
	case f.tries >= provenTries, f.tries > 0 && !f.proven:
		f = formMemory{form: other(f.form)}
	}
	f.tries++
	f.xid, f.at = xid, now
	return f
}

// progress returns the memory after the machine has acted on the latest offer.
func (f formMemory) progress() formMemory {
	if f.tries > 0 {
		f.tries, f.proven = 0, true
	}
	return f
}

func other(f Form) Form {
	if f == Redirect {
		return Direct
	}
	return Redirect
}

// A chainMemory records that an iPXE that lacks a feature was sent to the boot file of its
// architecture, which should be a better iPXE. That is done only once: if the next iPXE lacks the
// feature too, it gets the script nevertheless.
type chainMemory struct {
	xid uint32
	at  time.Time
}

// loader reports whether an iPXE that lacks a feature is sent to another loader, and returns the
// memory after that. All DISCOVERs from one start of iPXE have the same xid, and get the same
// answer.
func (c chainMemory) loader(now time.Time, xid uint32) (bool, chainMemory) {
	if c.at.IsZero() || c.xid == xid || now.Sub(c.at) >= loaderMemory {
		return true, chainMemory{xid: xid, at: now}
	}
	return false, c
}
