package suite

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"

	"github.com/haul-project/haul/bench/peer"
)

// loginUser returns the user as whom clients log in. It is the current user, because without root,
// sshd accepts no other.
func loginUser() string {
	u, err := user.Current()
	if err != nil {
		return "root"
	}
	return u.Username
}

// prepareSFTP makes the keys, the files and the link of an SFTP scenario.
func (st *stage) prepareSFTP(ctx context.Context) error {
	var err error
	if st.local, err = os.MkdirTemp(filepath.Dir(st.root), "client-"); err != nil {
		return fmt.Errorf("make a directory for the clients: %w", err)
	}
	if st.keys, err = peer.NewKeys(st.local, loginUser()); err != nil {
		return err
	}
	switch st.sc.task {
	case peer.GetFile, peer.FetchFile, peer.ReadFile, peer.StreamFrom:
		err = st.makeFiles(ctx, st.sc.Load)
	case peer.PutFile, peer.FillFile, peer.StreamTo:
		err = st.writeSources(ctx, st.local, 1)
	case peer.GetTree:
		err = st.makeTree(ctx, st.root)
	case peer.PutTree:
		err = st.makeTree(ctx, st.local)
	}
	if err != nil {
		return err
	}
	if st.sc.Share > 0 {
		if st.limit, err = throttleCPU(st.sc.Share); err != nil {
			return err
		}
	}
	if err := st.connect(ctx); err != nil || st.link == nil {
		return err
	}
	return st.forgetful(ctx)
}

// forgetful keeps the kernel from saving metrics of a connection for the next connection to the
// same address, because that is the connection of another contender.
func (st *stage) forgetful(ctx context.Context) error {
	const setting = "echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save"
	_, err := run(st.command(ctx, "sh", "-c", setting))
	if err == nil {
		_, err = run(st.serverCommand(ctx, "sh", "-c", setting))
	}
	return err
}
