package leak_test

import (
	"net"
	"strings"
	"testing"

	"github.com/haul-project/haul/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m, "leak_test.") }

// waitHere is the function whose name the test searches for in the stacks of goroutines.
func waitHere(c chan struct{}) { <-c }

// Left finds files that stay open, and waits for files that are closed soon.
func TestLeft(t *testing.T) {
	before := leak.Descriptors()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for fd, to := range leak.Descriptors() {
		if before[fd] != to && strings.HasPrefix(to, "socket:") {
			found++
		}
	}
	if found != 1 && len(before)+found > 0 {
		t.Errorf("%d sockets found, one is open", found)
	}
	go conn.Close()
	if left := before.Left(); len(left) != 0 {
		t.Errorf("left %v", left)
	}

	stop := make(chan struct{})
	go waitHere(stop)
	if left := leak.Goroutines("leak_test.waitHere", "!leak_test.waitHere"); left != "" {
		t.Errorf("left, and excused: %s", left)
	}
	go close(stop)
	if left := leak.Goroutines("leak_test.waitHere"); left != "" {
		t.Errorf("left %s", left)
	}
}
