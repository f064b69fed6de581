package s3

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// gateway is the path where scripts/install-peers installs versitygw.
const gateway = "../../bin/peers/versitygw/bin/versitygw"

// startGateway starts versitygw with the bucket "b12", and returns the configuration for it.
// Without versitygw, the test is skipped, except in CI.
func startGateway(t testing.TB) Config {
	c, _ := startGatewayDir(t)
	return c
}

// startGatewayDir is like startGateway, and also returns the directory of the bucket.
func startGatewayDir(t testing.TB) (c Config, bucket string) {
	t.Helper()
	path, err := filepath.Abs(gateway)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") != "" && runtime.GOOS == "linux" {
			t.Fatal("versitygw is missing: run scripts/install-peers")
		}
		t.Skip("versitygw is missing: scripts/install-peers builds it")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "b12"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--port", addr, "posix", dir)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+testKeys.ID, "ROOT_SECRET_KEY="+testKeys.Secret)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-exited
	})
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
			break
		}
		select {
		case <-exited:
			t.Fatalf("versitygw ends: %v\n%s", cmd.ProcessState, out.String())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal(errors.New("versitygw does not listen"))
		}
	}
	return Config{Endpoint: "http://" + addr, Region: "us-east-1", Keys: testKeys.get}, filepath.Join(dir, "b12")
}
