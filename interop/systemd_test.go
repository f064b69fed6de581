//go:build unix

package interop

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const unitDir = "../packaging/systemd"

// maxExposure is the highest exposure, in tenths, that systemd-analyze may report for our
// service. The remainder is what a server needs: the network, port 69, and files that are not its
// own.
const maxExposure = "20"

// analyzer returns systemd-analyze, which needs more of its surroundings than other programs if
// it was unpacked and not installed.
func analyzer(t *testing.T) program {
	t.Helper()
	p := find(t, "systemd", "systemd-analyze")
	base, err := filepath.Abs("../bin/peers/systemd")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(p.path, base+"/") {
		return p
	}
	var libs, units []string
	for _, pattern := range []string{"/usr/lib/*-linux-gnu*", "/lib/*-linux-gnu*", "/usr/lib/*-linux-gnu*/systemd"} {
		found, _ := filepath.Glob(base + pattern)
		libs = append(libs, found...)
	}
	for _, dir := range []string{"/usr/lib/systemd/system", "/lib/systemd/system"} {
		units = append(units, base+dir)
	}
	p.env = []string{"LD_LIBRARY_PATH=" + strings.Join(libs, ":"), "SYSTEMD_UNIT_PATH=" + strings.Join(units, ":")}
	return p
}

// units copies our units, with the path of the built haul, and changes the service as a test
// wants.
func units(t *testing.T, change func(service string) string) (service, socket string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"haul.service", "haul.socket"} {
		b, err := os.ReadFile(filepath.Join(unitDir, name))
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		if name == "haul.service" {
			text = change(strings.ReplaceAll(text, "/usr/bin/haul ", haul(t).path+" "))
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "haul.service"), filepath.Join(dir, "haul.socket")
}

// complaints returns the messages of systemd-analyze verify about our units. Those about the
// machine's own units do not count.
func complaints(t *testing.T, files ...string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// Man pages are not installed here, and are not to be checked.
	out, err := analyzer(t).run(ctx, append([]string{"verify", "--man=no"}, files...)...)
	var ours []string
	for line := range strings.Lines(out) {
		if strings.Contains(line, "haul.") {
			ours = append(ours, strings.TrimSpace(line))
		}
	}
	if err != nil && len(ours) == 0 {
		t.Fatalf("systemd-analyze verify: %v\n%s", err, out)
	}
	return ours
}

// exposed reports whether systemd-analyze considers the service too exposed.
func exposed(t *testing.T, service string) (bool, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := analyzer(t).run(ctx, "security", "--no-pager", "--offline=true", "--threshold="+maxExposure, service)
	if !strings.Contains(out, "Overall exposure level for haul.service") {
		t.Fatalf("systemd-analyze security: %v\n%s", err, out)
	}
	return err != nil, out
}

func TestSystemdUnits(t *testing.T) {
	service, socket := units(t, func(s string) string { return s })
	for _, line := range complaints(t, service, socket) {
		t.Error("systemd-analyze verify:", line)
	}
	if bad, out := exposed(t, service); bad {
		t.Errorf("the service is exposed by more than %s tenths:\n%s", maxExposure, out)
	}
}

// Both checks detect planted faults.
func TestSystemdUnitsPlantedFaults(t *testing.T) {
	for _, fault := range [][2]string{
		{"MemoryMax=", "MemoryMaximum="},
		{"SystemCallFilter=capset", "SystemCallFilter=@no-such-group"},
		{"Type=notify", "Type=notified"},
		{"ExecStart=", "ExecStart=/nowhere"},
	} {
		service, socket := units(t, func(s string) string { return strings.Replace(s, fault[0], fault[1], 1) })
		if len(complaints(t, service, socket)) == 0 {
			t.Errorf("%s in place of %s passed", fault[1], fault[0])
		}
	}
	service, _ := units(t, func(s string) string { return strings.Replace(s, "SystemCallFilter=@system-service", "#", 1) })
	if bad, out := exposed(t, service); !bad {
		t.Errorf("a service with hardly a system call filter passed:\n%s", out)
	}
}

// haul understands the command line in the unit.
func TestSystemdCommandLine(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(unitDir, "haul.service"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(b), "\nExecStart=")
	line, _, _ := strings.Cut(rest, "\n")
	args := strings.Fields(line)
	if !found || len(args) < 2 {
		t.Fatalf("no command in ExecStart=%s", line)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// An unknown flag is an error even with --help, which starts nothing.
	for _, c := range []struct {
		args []string
		ok   bool
	}{{args[1:], true}, {slices.Concat(args[1:], []string{"--no-such-flag"}), false}} {
		if out, err := haul(t).run(ctx, slices.Concat(c.args, []string{"--help"})...); (err == nil) != c.ok {
			t.Errorf("haul %q: %v\n%s", c.args, err, out)
		}
	}
}
