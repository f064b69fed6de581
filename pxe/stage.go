package pxe

import (
	"strings"
	"time"
)

// A Stage is how far a machine has come since its latest power-on.
type Stage uint8

// The stages. A machine is Stuck if it asked for no script or kernel after an offer or a
// loader, and Quiet if it asks for nothing more after a script or a kernel: it runs the kernel,
// boots its disk, or waits in a menu.
const (
	NoStage Stage = iota
	Offered       // it was answered, and has not asked for a file
	Loader        // it asks for a boot file
	Script        // it asks for a script or a configuration of a loader
	Kernel        // it asks for other files: a kernel, an initrd
	Quiet
	Stuck
	NumStages // how many there are
)

var stageTexts = [...]string{"none", "offered", "loader", "script", "kernel", "quiet", "stuck"}

// String returns the stage's name.
func (s Stage) String() string {
	if int(s) < len(stageTexts) {
		return stageTexts[s]
	}
	return stageTexts[NoStage]
}

const (
	// stuckAfter is how long an offer or a loader may be the last news. Firmware gives up
	// a server after some 30 s, and a loader of a megabyte is there in seconds.
	stuckAfter = 2 * time.Minute

	// quietAfter is how long after its last request a machine has all it wants.
	quietAfter = time.Minute
)

// A boot is the stage of one machine, as its requests show it. Its zero value is a machine
// that has not been seen.
type boot struct {
	stage Stage     // without Quiet and Stuck, which time brings
	since time.Time // when it reached the stage
	last  time.Time // its latest request
}

// offered returns the boot after a DISCOVER. One of firmware begins a boot. One of iPXE
// does, too, unless iPXE was loaded just now.
func (b boot) offered(now time.Time, class Class) boot {
	same := b.stage == Offered || class == IPXE && b.stage == Loader
	if same && now.Sub(b.last) < stuckAfter {
		b.last = now
		return b
	}
	return boot{stage: Offered, since: now, last: now}
}

// requested returns the boot after a request for a file, of a machine whose answer named
// the boot file loader.
func (b boot) requested(now time.Time, name, loader string) boot {
	b.last = now
	if stage := stageOf(name, loader, b.stage); stage != b.stage {
		b.stage, b.since = stage, now
	}
	return b
}

// stageOf returns which stage a request for a file belongs to.
func stageOf(name, loader string, before Stage) Stage {
	name = strings.TrimPrefix(name, "/")
	ending := strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
	switch ending {
	case "ipxe", "cfg":
		return Script
	case "mod", "lst": // parts of GRUB
		return max(before, Loader)
	case "efi", "kpxe", "kkpxe", "kkkpxe", "pxe", "0":
		if before < Script {
			return Loader
		}
	}
	switch {
	case strings.HasPrefix(ending, "cfg-"): // grub.cfg-0A450002: GRUB tries names of this machine first
		return Script
	case name == loader && before < Script:
		return Loader
	}
	return Kernel
}

// at returns the stage at a time.
func (b boot) at(now time.Time) Stage {
	switch {
	case (b.stage == Offered || b.stage == Loader) && now.Sub(b.since) >= stuckAfter:
		return Stuck
	case (b.stage == Script || b.stage == Kernel) && now.Sub(b.last) >= quietAfter:
		return Quiet
	}
	return b.stage
}
