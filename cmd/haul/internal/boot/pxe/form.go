package pxe

import "time"

const (
	// repeatGap is the time within which another copy of a DISCOVER counts as the same one,
	// received by a second path. Firmware repeats a DISCOVER after 4 s or later.
	repeatGap = time.Second

	// provenTries is how many offers in a row may have no effect before a form that has worked is
	// given up: the firmware, or a device on the path, has changed.
	provenTries = 4

	// loaderMemory is how long an iPXE that was sent to a better loader is expected to be that
	// loader when it asks again.
	loaderMemory = 5 * time.Minute
)

// A formMemory records which form of answers a machine has understood. The zero value knows nothing
// yet.
//
// Firmware takes one offer at each power-on, and does not try again once it has taken one. So after
// a form without effect, the next DISCOVER, which may come minutes or days later, gets the other
// form. Until an offer is taken, DISCOVERs repeat: the next one gets the other form, and firmware
// that collects offers has both.
type formMemory struct {
	form   Form
	tries  uint8 // offers of this form since the last progress
	proven bool  // progress followed this form
	xid    uint32
	at     time.Time // time of the latest offer
}

// offer returns the memory after an offer, whose form it contains. first is the form to begin with.
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

// progress returns the memory after the machine acted on the latest offer.
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
// architecture, a better iPXE. That happens once: if the next iPXE lacks the feature as well, it
// gets the script nevertheless.
type chainMemory struct {
	xid uint32
	at  time.Time
}

// loader reports whether an iPXE that lacks a feature gets another loader, and returns the memory
// after that. All DISCOVERs of one start of iPXE have the same xid, and get the same answer.
func (c chainMemory) loader(now time.Time, xid uint32) (bool, chainMemory) {
	if c.at.IsZero() || c.xid == xid || now.Sub(c.at) >= loaderMemory {
		return true, chainMemory{xid: xid, at: now}
	}
	return false, c
}
