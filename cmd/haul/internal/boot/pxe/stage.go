package pxe

import (
	"strings"
	"time"
)

// A Stage says how far a machine's boot has progressed since its latest power-on.
type Stage uint8

// These are the stages. A machine becomes Stuck if it requests no script or kernel after it got an
// offer or a loader. It becomes Quiet if it sends no more requests after it got a script or a
// kernel: it may run the kernel, boot from its disk, or show a menu.
const (
	NoStage Stage = iota
	Offered       // the machine got an answer, but has not requested a file yet
	Loader        // the machine has requested a boot file
	Script        // the machine has requested a script, or the configuration of a loader
	Kernel        // the machine has requested another file, such as a kernel or an initrd
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
	// stuckAfter is how long a machine may stay at an offer or a loader before it counts as stuck.
	// Firmware stops trying a server after about 30 s, and loads a loader of a megabyte within
	// seconds.
	stuckAfter = 2 * time.Minute

	// quietAfter is the time after a machine's last request from which on it counts as quiet.
	quietAfter = time.Minute
)

// A boot is the stage of one machine, derived from its requests. The zero value means that nothing
// is known about the machine.
type boot struct {
	stage Stage     // never Quiet or Stuck: these depend on the time, and only the method `at` returns them
	since time.Time // when the machine reached the stage
	last  time.Time // time of the latest request
}

// offered returns the boot after a DISCOVER. A DISCOVER from firmware means that a new boot begins.
// A DISCOVER from iPXE means the same, unless iPXE has just been loaded.
func (b boot) offered(now time.Time, class Class) boot {
	same := b.stage == Offered || class == IPXE && b.stage == Loader
	if same && now.Sub(b.last) < stuckAfter {
		b.last = now
		return b
	}
	return boot{stage: Offered, since: now, last: now}
}

// requested returns the boot after the machine has requested the file `name`. loader is the boot
// file that the machine's answer contained.
func (b boot) requested(now time.Time, name, loader string) boot {
	b.last = now
	if stage := stageOf(name, loader, b.stage); stage != b.stage {
		b.stage, b.since = stage, now
	}
	return b
}

// stageOf returns the stage that follows from a request for a file. `before` is the stage so far.
func stageOf(name, loader string, before Stage) Stage {
	name = strings.TrimPrefix(name, "/")
	ending := strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
	switch ending {
	case "ipxe", "cfg":
		return Script
	case "mod", "lst": // modules of GRUB
		return max(before, Loader)
	case "efi", "kpxe", "kkpxe", "kkkpxe", "pxe", "0":
		if before < Script {
			return Loader
		}
	}
	switch {
	case strings.HasPrefix(ending, "cfg-"):
		// For example grub.cfg-0A450002: GRUB first tries names that contain this machine's
		// address.
		return Script
	case name == loader && before < Script:
		return Loader
	}
	return Kernel
}

// at returns the stage at the given time, which may be Quiet or Stuck.
func (b boot) at(now time.Time) Stage {
	switch {
	case (b.stage == Offered || b.stage == Loader) && now.Sub(b.since) >= stuckAfter:
		return Stuck
	case (b.stage == Script || b.stage == Kernel) && now.Sub(b.last) >= quietAfter:
		return Quiet
	}
	return b.stage
}
