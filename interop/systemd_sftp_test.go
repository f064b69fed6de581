//go:build unix

package interop

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const sftpUnit = "haul-sftp.service"

// sftpService copies the unit for SFTP, with the path of the built haul, and replaces some words
// with a fault.
func sftpService(t *testing.T, instead, fault string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(unitDir, sftpUnit))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(b), "/usr/bin/haul ", haul(t).path+" ")
	if !strings.Contains(text, instead) {
		t.Fatalf("the unit has no %q", instead)
	}
	path := filepath.Join(t.TempDir(), sftpUnit)
	if err := os.WriteFile(path, []byte(strings.Replace(text, instead, fault, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// The unit for SFTP passes the same checks as the one for TFTP, and the checks detect planted
// faults.
func TestSystemdSFTPUnit(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	verify := func(path string) string {
		t.Helper()
		// Its messages about the machine's own units do not count.
		out, _ := analyzer(t).run(ctx, "verify", "--man=no", path)
		var ours strings.Builder
		for line := range strings.Lines(out) {
			if strings.Contains(line, sftpUnit) {
				ours.WriteString(line)
			}
		}
		return ours.String()
	}
	exposed := func(path string) (bool, string) {
		t.Helper()
		out, err := analyzer(t).run(ctx, "security", "--no-pager", "--offline=true", "--threshold="+maxExposure, path)
		if !strings.Contains(out, "Overall exposure level for "+sftpUnit) {
			t.Fatalf("systemd-analyze security: %v\n%s", err, out)
		}
		return err != nil, out
	}
	service := sftpService(t, "", "")
	if said := verify(service); said != "" {
		t.Errorf("systemd-analyze verify: %s", said)
	}
	if bad, out := exposed(service); bad {
		t.Errorf("the service is exposed by more than %s tenths:\n%s", maxExposure, out)
	}
	for _, fault := range [][2]string{{"MemoryMax=", "MemoryMaximum="}, {"SystemCallFilter=~@privileged", "SystemCallFilter=~@no-such-group"}, {"ExecStart=", "ExecStart=/nowhere"}} {
		if verify(sftpService(t, fault[0], fault[1])) == "" {
			t.Errorf("%s in place of %s passed", fault[1], fault[0])
		}
	}
	if bad, out := exposed(sftpService(t, "\nCapabilityBoundingSet=", "\n#")); !bad {
		t.Errorf("a service that may have any capability passed:\n%s", out)
	}
	// haul understands the command line in the unit.
	b, err := os.ReadFile(service)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "\nExecStart=")
	line, _, _ := strings.Cut(rest, "\n")
	args := append(strings.Fields(line)[1:], "--help")
	if out, err := haul(t).run(ctx, args...); err != nil {
		t.Errorf("haul %q: %v\n%s", args, err, out)
	}
}
