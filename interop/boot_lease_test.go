//go:build linux

package interop

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A DHCP server on haul's own host owns port 67 and receives the packets that are addressed to
// it: it renews a lease while haul sees the same packets. After haul was killed, it assigns an
// address as before.
func TestBootLease(t *testing.T) {
	t.Parallel()
	server, client := newNode(t), newNode(t)
	join(t, server, cable, client, eth, 1500)
	server.ip(t, address(cable, host+"/24"))
	server.do(t, func() { leaseAddress(t) })
	d := server.start(t, haul(t), bootArgs(t, t.TempDir(), "--interface", cable, "--trace")...)
	d.ready(t, regexp.MustCompile(`another DHCP server of this machine has port 67`))

	box := find(t, "busybox", "busybox")
	script := filepath.Join(t.TempDir(), "script")
	set := "[ $1 = deconfig ] || " + box.path + " ip addr replace $ip/24 dev $interface\necho \"$1 $ip\"\n"
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"+set), 0o700); err != nil {
		t.Fatal(err)
	}
	holder := client.start(t, box, "udhcpc", "-i", eth, "-f", "-s", script)
	holder.await(t, "bound "+guest)
	renew := func(times int) {
		t.Helper()
		_ = holder.cmd.Process.Signal(syscall.SIGUSR1)
		for began := time.Now(); strings.Count(holder.said(1000), "renew "+guest) < times; time.Sleep(10 * time.Millisecond) {
			if time.Since(began) > waitMost {
				t.Fatalf("the lease is not renewed within %v:\n%s", waitMost, holder.said(20))
			}
		}
	}
	renew(1)
	// The client has its address, so it sends to the server only.
	d.ready(t, regexp.MustCompile(`peer=`+guest+`:68`))
	_ = d.cmd.Process.Signal(syscall.SIGKILL)
	<-d.done
	renew(2)
	_ = holder.stop()
	out, err := client.run(t, box, "udhcpc", "-i", eth, "-f", "-n", "-q", "-s", script)
	if err != nil || !strings.Contains(out, "bound "+guest) {
		t.Errorf("udhcpc without haul: %v\n%s", err, out)
	}
}
