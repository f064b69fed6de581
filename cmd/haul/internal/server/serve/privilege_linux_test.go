package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/handovertest"
	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/udp"
)

// settledVar holds a directory. If it is set, the process is a server of that directory which gives
// up rights in the same order as "haul serve".
const (
	settledVar = "HAUL_TEST_SETTLED"
	userVar    = "HAUL_TEST_USER"
)

func init() {
	dir := os.Getenv(settledVar)
	if dir == "" {
		return
	}
	if err := settledServer(dir, os.Getenv(userVar)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func settledServer(dir, name string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	user, err := userToBecome(name)
	if err != nil {
		return err
	}
	m, err := handover.FindManager()
	if err != nil {
		return err
	}
	defer m.Close()
	passed, err := handover.Inherit(udp.Config{}, []string{handover.TFTP}, nil, nil)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	s := &tftp.Config{Store: localdir.New(root), Upload: tftp.CreateUploads}
	l, err := s.ListenAt(ctx, tftp.Place{Conns: passed.Datagram(nil)[0].Conns})
	if err != nil {
		return err
	}
	var log bytes.Buffer
	if err := dropPrivileges(user, privilege.Confinement{Write: []string{dir}}, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
		return err
	}
	if _, err := os.ReadFile("/etc/passwd"); !errors.Is(err, syscall.EACCES) && strings.Contains(log.String(), "ABI") {
		return fmt.Errorf("confined, and reads /etc/passwd: %v; log: %s", err, &log)
	}
	if err := m.Ready(fmt.Sprintf("uid %d", os.Getuid())); err != nil {
		return err
	}
	go func() { _ = m.KeepAlive(ctx, func() bool { return true }) }()
	err = l.Serve(ctx)
	return errors.Join(err, m.Stopping("done"))
}

// A server with almost no rights still serves, and accepts uploads.
func TestSettledServer(t *testing.T) {
	dir := t.TempDir()
	files := filepath.Join(dir, "files")
	servetest.WriteFile(t, filepath.Join(files, "kernel"), "content")
	env := []string{settledVar + "=" + files}
	uid := os.Getuid()
	if uid == 0 {
		// A directory that the user cannot reach, but can write in.
		uid = 4711
		if err := errors.Join(os.Chmod(dir, 0o700), os.Chown(files, uid, uid)); err != nil {
			t.Fatal(err)
		}
		env = append(env, userVar+"=4711:4711")
	}
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	f, err := socket.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	url := "tftp://" + socket.LocalAddr().String() + "/"
	socket.Close()

	s := handovertest.NewSystemd(t)
	cmd := s.Command(t, []*os.File{f}, env...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	if got, want := s.Receive(t), fmt.Sprintf("READY=1\nSTATUS=uid %d", uid); got != want {
		t.Errorf("the server said %q, want %q", got, want)
	}
	local := filepath.Join(t.TempDir(), "f")
	var client tftpclient.Client
	if _, err := client.GetFile(t.Context(), url+"kernel", local); err != nil {
		t.Errorf("get: %v", err)
	}
	servetest.WantFile(t, local, "content")
	if _, err := client.PutFile(t.Context(), local, url+"log"); err != nil {
		t.Errorf("put: %v", err)
	}
	servetest.WantFile(t, filepath.Join(files, "log"), "content")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := s.Receive(t); got != "STOPPING=1\nSTATUS=done" {
		t.Errorf("the server's last words are %q", got)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v, said %s", err, &said)
	}
}

func TestUserToBecome(t *testing.T) {
	if u, err := userToBecome(""); u != nil || err != nil {
		t.Errorf("no user: %v, %v", u, err)
	}
	if u, err := userToBecome("4711:4712"); err != nil || u.UID != 4711 || u.GID != 4712 {
		t.Errorf("4711:4712: %+v, %v", u, err)
	}
	_, err := userToBecome("no such user")
	if err == nil || !errors.Is(err, failure.Usage) || !strings.Contains(err.Error(), "--user") {
		t.Errorf("a user that does not exist: %v", err)
	}
}
