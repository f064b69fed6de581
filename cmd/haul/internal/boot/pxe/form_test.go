package pxe

import (
	"testing"
	"time"
)

var start = time.Unix(1_000_000, 0)

// TestFormMemory checks which form follows which. The events are power-ons that take one offer each
// ("o"), repeats of a DISCOVER after 4 s ("r") and at once ("="), and progress ("p").
func TestFormMemory(t *testing.T) {
	for _, test := range []struct{ events, want string }{
		{"o", "R"},
		{"oo", "RD"},            // without progress, the next power-on gets the other form
		{"ooo", "RDR"},          // and then the first form again
		{"orrr", "RDRD"},        // if firmware takes no offer and repeats its DISCOVER, it gets both forms
		{"o=o=o", "RRDDR"},      // a copy of the same DISCOVER does not count as a try
		{"opo", "RR"},           // after progress, the form is kept
		{"oopo", "RDD"},         // this holds for the second form too
		{"opoooo", "RRRRR"},     // a form that has worked is kept for some power-ons without effect
		{"opooooo", "RRRRRD"},   // but not forever
		{"opoooooo", "RRRRRDR"}, // then the forms alternate again
		{"po", "R"},             // progress without an offer has no meaning
		{"poo", "RD"},
	} {
		var f formMemory
		now, xid, got := start, uint32(0), ""
		for _, e := range test.events {
			switch e {
			case 'p':
				f = f.progress()
				continue
			case 'o':
				now, xid = now.Add(time.Hour), xid+1
			case 'r':
				now = now.Add(4 * time.Second)
			case '=':
				now = now.Add(10 * time.Millisecond)
			}
			f = f.offer(now, xid, Redirect)
			got += map[Form]string{Redirect: "R", Direct: "D"}[f.form]
		}
		if got != test.want {
			t.Errorf("%s: got %s, want %s", test.events, got, test.want)
		}
	}
}

// An iPXE that lacks a feature is sent to another loader once, and again at a later power-on.
func TestChainMemory(t *testing.T) {
	var c chainMemory
	for i, step := range []struct {
		after time.Duration
		xid   uint32
		want  bool
	}{
		{0, 1, true}, {time.Second, 1, true}, {10 * time.Second, 2, false}, {time.Second, 2, false},
		{loaderMemory, 3, true}, {loaderMemory - 1, 4, false},
	} {
		now := start
		if !c.at.IsZero() {
			now = c.at.Add(step.after)
		}
		var got bool
		if got, c = c.loader(now, step.xid); got != step.want {
			t.Errorf("step %d: got %v", i, got)
		}
	}
}

// Requests determine the stage. Quiet and Stuck depend on the time.
func TestStages(t *testing.T) {
	type step struct {
		after time.Duration
		event string // the class of a DISCOVER, or the name of a file
		want  Stage  // stage after the event
	}
	for name, steps := range map[string][]step{
		"from BIOS to a kernel": {
			{0, "PXE", Offered}, {time.Second, "undionly.kpxe", Loader}, {5 * time.Second, "iPXE", Loader},
			{time.Second, "/boot.ipxe", Script}, {time.Second, "linux", Kernel}, {time.Second, "initrd.img", Kernel},
			{quietAfter, "", Quiet}, {time.Hour, "PXE", Offered},
		},
		"an offer alone":         {{0, "PXE", Offered}, {stuckAfter - 1, "", Offered}, {1, "", Stuck}, {time.Hour, "PXE", Offered}},
		"asks for ever":          {{0, "PXE", Offered}, {time.Minute, "PXE", Offered}, {time.Minute, "PXE", Stuck}, {time.Minute, "PXE", Stuck}},
		"a loader that hangs":    {{0, "PXE", Offered}, {1, "ipxe.efi", Loader}, {stuckAfter, "", Stuck}},
		"local disk of the menu": {{0, "iPXE", Offered}, {1, "boot.ipxe", Script}, {quietAfter, "", Quiet}},
		"GRUB": {
			{0, "PXE", Offered}, {1, "shimx64.efi", Loader}, {1, "grubx64.efi", Loader}, {1, "grub/grub.cfg", Script},
			{1, "vmlinuz.efi", Kernel},
		},
		"GRUB with modules": {
			{0, "PXE", Offered}, {1, "grub/core.0", Loader}, {1, "/grub/i386-pc/normal.mod", Loader}, {1, "/grub/grub.cfg-0A450002", Script},
			{1, "/grub/i386-pc/command.lst", Script}, {1, "/grub/grub.cfg", Script}, {1, "/grub/i386-pc/linux.mod", Script}, {1, "/linux", Kernel},
		},
		"a Raspberry Pi":   {{0, "Raspberry Pi", Offered}, {1, "start4.elf", Kernel}},
		"U-Boot":           {{0, "U-Boot", Offered}, {1, "boot.scr.uimg", Loader}, {1, "Image", Kernel}},
		"iPXE starts anew": {{0, "iPXE", Offered}, {1, "boot.ipxe", Script}, {time.Second, "iPXE", Offered}},
	} {
		loader := map[string]string{"U-Boot": "boot.scr.uimg"}[name]
		var b boot
		now := start
		for i, s := range steps {
			now = now.Add(s.after)
			class := Class(0)
			for j, text := range classTexts {
				if text == s.event {
					class = Class(j)
				}
			}
			switch {
			case class != NoClass:
				b = b.offered(now, class)
			case s.event != "":
				b = b.requested(now, s.event, loader)
			}
			if got := b.at(now); got != s.want {
				t.Errorf("%s, step %d (%s): got %v, want %v", name, i+1, s.event, got, s.want)
			}
		}
	}
}
