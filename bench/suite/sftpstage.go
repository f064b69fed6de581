package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/suite/record"
)

// clientEnds is how long a client's children may keep its output open.
const clientEnds = 2 * time.Second

// loginUser is whom clients log in as: without root, sshd has nobody else.
func loginUser() string {
	u, err := user.Current()
	if err != nil {
		return "root"
	}
	return u.Username
}

// prepareSFTP makes keys, files and the link.
func (st *stage) prepareSFTP(ctx context.Context) error {
	var err error
	if st.local, err = os.MkdirTemp(filepath.Dir(st.root), "client-"); err != nil {
		return fmt.Errorf("make a directory for the clients: %w", err)
	}
	if st.keys, err = peer.NewKeys(st.local, loginUser()); err != nil {
		return err
	}
	l := st.sc.Load
	if l.Write {
		err = st.writeSources(ctx, st.local, 1)
	} else {
		err = st.makeFiles(ctx, l)
	}
	if err != nil {
		return err
	}
	if err := st.connect(ctx); err != nil || st.link == nil {
		return err
	}
	return st.forgetful(ctx)
}

// forgetful has the kernel keep nothing of a connection for the next one to the
// same address: that would be somebody else's.
func (st *stage) forgetful(ctx context.Context) error {
	const setting = "echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save"
	_, err := run(st.command(ctx, "sh", "-c", setting))
	if err == nil {
		_, err = run(st.serverCommand(ctx, "sh", "-c", setting))
	}
	return err
}

// sftpJob is what a scenario's client does, but for the task.
func (st *stage) sftpJob() peer.SFTPJob {
	name := fileName(st.sc.Size, "0")
	j := peer.SFTPJob{Task: st.sc.task, Server: st.server.Addr(), Keys: st.keys, Local: filepath.Join(st.local, name)}
	if st.sc.Write {
		name = uploadPrefix + name
	}
	j.Remote = st.pair.Server.At(st.root, name)
	return j
}

// sftpTransfer is an act: a program moves a file, and the files are compared.
func sftpTransfer(ctx context.Context, st *stage, _ bool) (tally, error) {
	j := st.sftpJob()
	t, _, err := st.sftpRun(ctx, j)
	if err != nil {
		return t, err
	}
	there := filepath.Join(st.root, fileName(st.sc.Size, "0"))
	if st.sc.Write {
		there = filepath.Join(st.root, uploadPrefix+fileName(st.sc.Size, "0"))
	} else {
		defer func() { _ = os.Remove(j.Local) }() // it goes with the stage at the latest
	}
	return t, same(j.Local, there)
}

// sftpRun runs a client, and returns what was seen of it, and what it printed.
func (st *stage) sftpRun(ctx context.Context, j peer.SFTPJob) (tally, []byte, error) {
	if err := st.keys.Trust(j.Server); err != nil {
		return tally{}, nil, err
	}
	cmd, err := st.pair.Client.Command(ctx, st.command, j)
	if err != nil {
		return tally{}, nil, err
	}
	var out, said bounded
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &said, clientEnds
	p, ok := st.server.(*peer.Process)
	if !ok {
		return tally{}, nil, errors.New("the server is no process")
	}
	w, err := watch(p.PID(), st.link != nil, st.sc.Write)
	if err != nil {
		return tally{}, nil, err
	}
	u, err := peer.Metered(ctx, cmd)
	samples := w.close()
	if err != nil {
		return tally{}, nil, fmt.Errorf("%s: %w: %s; the server said: %s", j.Task, err, bytes.TrimSpace(said.b), p.Log())
	}
	size := float64(st.sc.Size) * float64(st.sc.Transfers)
	t := tally{seconds: u.Wall.Seconds(), bytes: size, figures: map[record.Metric]float64{
		record.Transfers: float64(st.sc.Transfers), record.Failed: 0,
		record.SecondsPerFile: u.Wall.Seconds() / float64(st.sc.Transfers),
		record.ClientCPU:      u.CPU.Seconds(),
		record.ClientCPUPerGB: u.CPU.Seconds() * 1e9 / size,
		record.ClientMemory:   float64(u.Memory) / 1e6,
	}}
	if from, to, ok := span(samples); ok {
		t.figures[record.Login] = from.Seconds()
		t.figures[record.DataRate] = size / 1e6 / (to - from).Seconds()
	}
	return t, out.b, nil
}

// same checks that two files are, without taking them into memory.
func same(here, there string) error {
	a, err := os.Open(here)
	if err != nil {
		return fmt.Errorf("what the client has: %w", err)
	}
	defer a.Close()
	b, err := os.Open(there)
	if err != nil {
		return fmt.Errorf("what the server has: %w", err)
	}
	defer b.Close()
	x, y := make([]byte, 1<<20), make([]byte, 1<<20)
	for offset := int64(0); ; {
		n, errA := io.ReadFull(a, x)
		m, errB := io.ReadFull(b, y)
		if !bytes.Equal(x[:n], y[:m]) {
			return fmt.Errorf("%s differs on the two sides, behind byte %d", filepath.Base(there), offset)
		}
		offset += int64(n)
		if n < len(x) {
			return errors.Join(beyondEnd(errA), beyondEnd(errB))
		}
	}
}

func beyondEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
