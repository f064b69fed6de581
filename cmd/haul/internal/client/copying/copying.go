// Package copying implements haul get, put, sync and cp: it copies files between this machine and a
// server, between servers, and from and to streams. It shows progress, and reports the outcome
// with the names that the user typed.
package copying

import (
	"context"

	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
)

// Copy copies the files at the locations from to the location to, as the command verb does. Either
// all sources are on this machine, or all are on servers. Except for Sync, all locations on servers
// have the same protocol. At least one end is on a server. For Get, the local name "" means the
// current directory, and "-" means standard output. For Put, "-" means standard input.
func Copy(ctx context.Context, cfg Config, verb Verb, from []remote.Location, to remote.Location) error {
	over := to.Protocol
	if from[0].IsRemote() {
		over = from[0].Protocol
	}
	if over == remote.TFTP {
		return copyTFTP(ctx, &cfg, from, to)
	}
	if verb == Sync {
		cfg.setSync(to)
	}
	r := newRun(&cfg, verb, over, from[0].IsRemote())
	defer r.close()
	switch {
	case verb == Get && (to.Text == "-" || isPipe(to.Text)):
		return r.getStream(ctx, from, to.Text)
	case verb == Put && len(from) == 1 && from[0].Text == "-":
		return r.putStream(ctx, to)
	}
	if err := r.plan(ctx, from, to); err != nil {
		return err
	}
	return r.copy(ctx)
}
