package tftp

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"strconv"
	"time"

	"github.com/haul-project/haul/internal/linequeue"
	"github.com/haul-project/haul/internal/shares"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/transfer"
)

// reportEnd passes a transfer that is over to the hook Ended and to the log. It does not wait.
func (srv *Server) reportEnd(t *Transfer) {
	if srv.config.Hooks.Ended != nil {
		srv.call(srv.config.Hooks.Ended, t)
	}
	if srv.mayLog(t) {
		srv.logLine(line{transfer: t})
	}
}

// mayLog reports whether a transfer may have a line in the log. A stranger can cause any number of
// transfers that move no byte, so each source has a share of their lines.
func (srv *Server) mayLog(t *Transfer) bool {
	switch {
	case !t.fruitless():
		return true
	case srv.config.Log == nil, !srv.config.Log.Enabled(context.Background(), t.level()):
		return false
	}
	return srv.few.Take(t.Began.Add(t.Duration), "failed requests", shares.SourceOf("", t.Peer.Addr()), t.Peer.String())
}

// fruitless reports whether a transfer has failed without having moved a byte.
func (t *Transfer) fruitless() bool { return t.Err != nil && t.Bytes == 0 && t.Outcome != Probe }

// level returns the level of the log line of a transfer that has ended.
func (t *Transfer) level() slog.Level {
	if t.Err != nil && !t.Routine() {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// call calls a hook. If the hook panics, the panic is caught, counted and logged.
func (srv *Server) call(hook func(*Transfer), t *Transfer) {
	defer func() {
		if p := recover(); p != nil {
			srv.crashes.Add(1)
			srv.logLine(line{crash: fileio.Crashed(p)})
		}
	}()
	hook(t)
}

// reportsEnds reports whether reportEnd passes transfers to a hook or to the log.
func (srv *Server) reportsEnds() bool { return srv.config.Hooks.Ended != nil || srv.config.Log != nil }

// reportsEnd reports whether a hook or the log has a use for a transfer that ended with the error
// err, which is nil for success. A log that shows only failures does not need successes.
func (srv *Server) reportsEnd(err error) bool {
	return srv.config.Hooks.Ended != nil || srv.config.Log != nil && (err != nil || srv.config.Log.Enabled(context.Background(), slog.LevelInfo))
}

// logLine queues a line for the log. It does not wait.
func (srv *Server) logLine(s line) {
	if srv.config.Log == nil {
		return
	}
	srv.lines.Add(s)
}

// writeLine writes a line of the log.
func (srv *Server) writeLine(s line) {
	switch {
	case s.crash != nil:
		srv.config.Log.Error("tftp: a hook panics", "error", s.crash, "stack", fileio.StackOf(s.crash))
	case s.transfer != nil:
		srv.write(s.transfer)
	case s.leftOut > 0:
		srv.config.Log.Warn("tftp: lines left out", "lines", s.leftOut, "last", s.last)
	default:
		c := s.counters
		srv.config.Log.Debug("tftp ended", "stray datagrams", c.Strays, "messages not sent", c.Unsent,
			"requests turned away", c.TurnedAway)
	}
}

// write writes the log line of a transfer that has ended.
func (srv *Server) write(t *Transfer) {
	level, ctx := t.level(), context.Background()
	if !srv.config.Log.Enabled(ctx, level) {
		return
	}
	name, path := t.Name, t.Path
	if t.fruitless() {
		name, path = linequeue.ShortName(name), linequeue.ShortName(path)
	}
	attrs := append(make([]slog.Attr, 0, 20),
		slog.String("result", string(t.Outcome)),
		slog.String("direction", t.Direction()),
		slog.String("file", name),
		slog.String("peer", t.Peer.String()),
		slog.String("options", formatOptions(t.Mode, t.Agreed)),
		slog.Int64("bytes", t.Bytes),
		slog.Duration("duration", t.Duration.Round(time.Microsecond)),
		slog.Int64("rate", perSecond(t.Bytes, t.Duration)),
		slog.Int64("pps", perSecond(t.Packets(), t.Duration)),
		slog.Duration("rtt", t.RTT.Round(time.Microsecond)),
		slog.Int64("resends", t.Resent),
	)
	if path != "" {
		attrs = append(attrs, slog.String("path", path))
	}
	if t.Stored != "" {
		attrs = append(attrs, slog.String("stored", t.Stored))
	}
	if slow := t.slow(); slow != "" {
		attrs = append(attrs,
			slog.String("slow", slow),
			slog.Duration("disk", t.Disk.Round(time.Microsecond)),
			slog.Duration("lost", t.Lost.Round(time.Microsecond)))
	}
	if t.stopsAtRollover() {
		attrs = append(attrs, slog.String("hint", "the client may not count beyond 65535 blocks, or not as it is served: have it ask for a larger blksize, or set its rollover"))
	}
	if t.Err != nil && t.Outcome != Probe {
		attrs = append(attrs, slog.String("error", linequeue.ShortError(t.Err.Error())))
		if stack := fileio.StackOf(t.Err); stack != "" {
			attrs = append(attrs, slog.String("stack", stack))
		}
	}
	srv.config.Log.LogAttrs(ctx, level, "tftp", attrs...)
}

// stopsAtRollover reports whether a read failed at the block where block numbers wrap around. Some
// firmware (syslinux.efi, NetBSD's pxeboot, NMRP) cannot continue there.
func (t *Transfer) stopsAtRollover() bool {
	if t.Write || t.Err == nil {
		return false
	}
	block := int64(cmp.Or(t.Agreed.BlockSize, transfer.DefaultBlockSize))
	last := t.Bytes / block
	return last >= 1<<16-2 && last <= 1<<16
}

// Routine reports whether an incomplete transfer is one that clients often cause in normal
// operation: they only ask for the size; they look for a configuration under several names, as
// pxelinux and GRUB do; or they close a file after the first blocks, as GRUB does.
func (t *Transfer) Routine() bool {
	if t.Write {
		return false
	}
	fault, ok := errors.AsType[*transfer.Error](t.Err)
	return t.Outcome == Probe ||
		t.Outcome == Refused && errors.Is(t.Err, fs.ErrNotExist) ||
		t.Outcome == EndedByPeer && ok && fault.Code == transfer.NotDefined
}

// formatOptions formats the mode and the agreed options for the log.
func formatOptions(m transfer.Mode, o transfer.Options) string {
	b := []byte(m.String())
	add := func(name string, v int64) {
		if v != 0 {
			b = append(append(append(b, ' '), name...), '=')
			b = strconv.AppendInt(b, v, 10)
		}
	}
	if o.PowerOfTwo {
		add("blksize2", int64(o.BlockSize))
	} else {
		add("blksize", int64(o.BlockSize))
	}
	add("windowsize", int64(o.Window))
	add("tsize", o.Size)
	add("timeout", int64(o.Timeout/time.Second))
	add("utimeout", o.MicroTimeout.Microseconds())
	if o.Rollover != transfer.RolloverDefault {
		b = append(b, " rollover="...)
		b = strconv.AppendInt(b, int64(o.Rollover.Next()), 10)
	}
	return string(b)
}

// perSecond returns n divided by d in seconds, or 0 if d is 0.
func perSecond(n int64, d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64(float64(n) / d.Seconds())
}
