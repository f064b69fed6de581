package link

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// asOwner makes the test program bring up a link, print its parts, and wait to be killed.
const asOwner = "HAUL_LINK_TEST_OWNER"

func TestMain(m *testing.M) {
	Main()
	if os.Getenv(asOwner) != "" {
		l, err := Up(context.Background(), Profile{Name: "test"})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(l.names[A], l.names[B], l.carrier.cmd.Process.Pid)
		time.Sleep(time.Minute)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// needRoot skips a test that makes namespaces, or fails it if all tests must run.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("network namespaces need root, and here all tests should run")
	}
	t.Skip("network namespaces need root")
}

// An owner is another process with a link.
type owner struct {
	cmd      *exec.Cmd
	names    [2]string
	emulator int
}

func startOwner(t *testing.T) *owner {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), asOwner+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the other process has no link: %v", err)
	}
	fields := strings.Fields(line)
	pid, err := strconv.Atoi(fields[2])
	if err != nil {
		t.Fatal(err)
	}
	return &owner{cmd: cmd, names: [2]string{fields[0], fields[1]}, emulator: pid}
}

func (o *owner) kill() {
	o.cmd.Process.Kill()
	o.cmd.Wait()
}

// exist counts the existing ones of two namespaces.
func exist(names [2]string) (n int) {
	for _, name := range names {
		if _, err := os.Stat(namespacePath(name)); err == nil {
			n++
		}
	}
	return n
}

// eventually waits for a condition, much longer than it should take.
func eventually(t *testing.T, what string, met func() bool) {
	t.Helper()
	for range 2000 {
		if met() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("not so after 20 s: %s", what)
}
