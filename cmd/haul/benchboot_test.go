package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// badBootValues are values that a flag of "haul bench boot" refuses, with a part of the message.
var badBootValues = []struct{ flag, value, says, with string }{
	{"machines", "0", "1 to 10000", "--image=http://h/i"},
	{"machines", "x", "whole number", ""},
	{"arrival", "linear", "linear:10m", ""},
	{"arrival", "poisson:-1", "poisson:20", ""},
	{"arrival", "all:2", "must be all", ""},
	{"firmware", "bios", "edk2 or ipxe", ""},
	{"lost", "101", "0 to 100 percent", "--image=http://h/i"},
	{"away", "-1s", "0 or more", "--image=http://h/i"},
	{"tries", "0", "above 0", "--image=http://h/i"},
	{"stall", "0s", "above 0", "--image=http://h/i"},
	{"no-resume", "x", "true or false", ""},
	{"seed", "-1", "0 or above", ""},
	{"json", "x", "true or false", ""},
	{"svg", "/dev/null/up.svg", "no such directory", "--simulate"},
	{"loader", "http://h/f", "not of the form", ""},
	{"image", "ftp://h/f", "not of the form", ""},
	{"image", "http://user:sesame@h:x/f", "--image: not a URL", ""},
	{"simulate", "x", "true or false", ""},
	{"replicas", "0", "1 to 10000", "--simulate"},
	{"link", "0", "above 0", "--simulate"},
	{"link", "1e-300", "ten years", "--simulate"},
	{"cores", "-1", "above 0", "--simulate"},
	{"loader-size", "5x", "20MB", "--simulate"},
	{"image-size", "x", "20MB", "--simulate"},
	{"image-size", "9000000000000000000", "64 PiB", "--simulate"},
	{"machine-link", "0", "above 0", "--simulate"},
	{"round-trip", "0s", "above 0", "--simulate"},
	{"store-link", "NaN", "above 0", "--simulate"},
	{"no-cache", "true", "is for --simulate", ""},
	{"replica-lost", "1s", "is for --simulate", ""},
	{"replica-back", "1s", "--replica-lost", "--simulate --replica-lost=2s"},
	{"replica-back", "1s", "--replica-lost", "--simulate"},
	{"withdraw", "soon", "10s", "--simulate"},
	{"withdraw", "-1s", "0 or more", "--simulate"},
}

func TestBenchBootBadValues(t *testing.T) {
	tested := map[string]bool{}
	for _, b := range badBootValues {
		tested[b.flag] = true
		if b.says == "" {
			continue
		}
		args := append([]string{"bench", "boot", "--" + b.flag + "=" + b.value}, strings.Fields(b.with)...)
		code, stdout, msg := haul(t, args...)
		if code != exitUsage || stdout != "" || !strings.Contains(msg, b.says) {
			t.Errorf("%q: exit code %d, %q; want %d, and %q", args, code, msg, exitUsage, b.says)
		}
	}
	newBenchBoot().Flags().VisitAll(func(f *pflag.Flag) {
		if !tested[f.Name] {
			t.Errorf("no bad value of --%s is tested", f.Name)
		}
	})
}
