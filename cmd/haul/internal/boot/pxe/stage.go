package pxe

import (
	"strings"
	"time"
)

// A Stage is the progress of a machine's boot since its latest power-on.
type Stage uint8

// The stages. A machine is Stuck if it requests no script or kernel after an offer or a loader. It
// is Quiet if it requests nothing more after a script or a kernel: it runs the kernel, boots from
// its disk, or waits in a menu.
const (
	NoStage Stage = iota
	Offered       // the machine got an answer, and has not requested a file
	Loader        // the machine requests a boot file
	Script        // the machine requests a script or the configuration of a loader
	Kernel        // the machine requests other files: a kernel, an initrd
	Quiet
	Stuck
	NumStages // the number of stages
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
	// stuckAfter is how long a machine may stay at an offer or a loader until it counts as stuck.
	// Firmware gives up a server after about 30 s, and a loader of a megabyte is loaded in seconds.
	stuckAfter = 2 * time.Minute

	// quietAfter is the time after the last request when a machine counts as having loaded
	// everything.
	quietAfter = time.Minute
)

// A boot holds the stage of one machine according to its requests. The zero value is for an unknown
// machine.
type boot struct {
	stage Stage     // without Quiet and Stuck, which depend on the time
	since time.Time // when the machine reached the stage
	last  time.Time // time of the latest request
}

// offered returns the boot after a DISCOVER. A DISCOVER from firmware begins a new boot. A DISCOVER
// from iPXE does too, unless iPXE has just been loaded.
func (b boot) offered(now time.Time, class Class) boot {
	same := b.stage == Offered || class == IPXE && b.stage == Loader
	if same && now.Sub(b.last) < stuckAfter {
		b.last = now
		return b
	}
	return boot{stage: Offered, since: now, last: now}
}

// requested returns the boot after the machine has requested the file name. The argument loader is
// the boot file that its answer contained.
func (b boot) requested(now time.Time, name, loader string) boot {
	b.last = now
	if stage := stageOf(name, loader, b.stage); stage != b.stage {
		b.stage, b.since = stage, now
	}
	return b
}

// stageOf returns the stage that a request for a file belongs to.
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
	case strings.HasPrefix(ending, "cfg-"): // grub.cfg-0A450002: GRUB first tries names with this machine's address
		return Script
	case name == loader && before < Script:
		return Loader
	}
	return Kernel
}

// at returns the stage at the given time.
func (b boot) at(now time.Time) Stage {
	switch {
	case (b.stage == Offered || b.stage == Loader) && now.Sub(b.since) >= stuckAfter:
		return Stuck
	case (b.stage == Script || b.stage == Kernel) && now.Sub(b.last) >= quietAfter:
		return Quiet
	}
	return b.stage
}
