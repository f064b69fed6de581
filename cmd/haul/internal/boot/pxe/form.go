package pxe

import "time"

const (
	// repeatGap is the time within which another copy of a DISCOVER counts as the same one,
	// received on a second path. Firmware repeats a DISCOVER only after 4 s or more.
	repeatGap = time.Second

	// provenTries is how many offers in a row may have no effect before the server gives up a form
	// that has worked. Then the firmware, or a device on the path, has changed.
	provenTries = 4

	// When iPXE is sent to a better loader, loaderMemory is how long the next request is taken to
	// come from that loader.
	loaderMemory = 5 * time.Minute
)

// A formMemory records which form of answers a machine has understood. The zero value is for an
// unknown machine.
//
// Firmware takes one offer at each power-on, and does not try another one after that. So if a form
// has no effect, the next DISCOVER gets the other form, even if it arrives minutes or days later.
// Until firmware takes an offer, it repeats its DISCOVER. The repeat gets the other form too, so
// firmware that collects offers then has both forms.
type formMemory struct {
	form   Form
	tries  uint8 // offers of this form since the last progress
	proven bool  // the machine has made progress after an offer of this form
	xid    uint32
	at     time.Time // time of the latest offer
}

// offer returns the memory after another offer, and that memory contains the form of the offer. The
// argument first is the form to begin with.
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

// A chainMemory records that an iPXE which lacks a feature was sent to the boot file of its
// architecture, which should be a better iPXE. That happens only once: if the next iPXE lacks the
// feature as well, it gets the script nevertheless.
type chainMemory struct {
	xid uint32
	at  time.Time
}

// loader reports whether an iPXE that lacks a feature gets another loader, and returns the memory
// after that. All DISCOVERs from one start of iPXE have the same xid, and get the same answer.
func (c chainMemory) loader(now time.Time, xid uint32) (bool, chainMemory) {
	if c.at.IsZero() || c.xid == xid || now.Sub(c.at) >= loaderMemory {
		return true, chainMemory{xid: xid, at: now}
	}
	return false, c
}
