package service

import (
	"crypto/x509"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"github.com/haul-project/haul/internal/certs"
)

// LogCertificate makes a Set log two kinds of events: faults of its certificates, and the use of a
// new certificate.
func LogCertificate(set *certs.Set, name string, say SayFunc) {
	set.Report = func(err error) {
		say(slog.LevelWarn, name+" certificate", slog.String("error", err.Error()))
	}
	set.Taken = func(cert *x509.Certificate) {
		say(slog.LevelInfo, name+" certificate: the new one is in force", slog.Time("expires", cert.NotAfter.UTC()))
	}
	for _, err := range set.Warnings() {
		set.Report(err)
	}
}

// WarnUnreadable logs a warning if a certificate cannot be loaded again, because the user that this
// process has become may not read its files. name is the name of the service.
func WarnUnreadable(name string, pair certs.Pair, log *slog.Logger) {
	for _, file := range slices.Compact([]string{pair.Cert, pair.Key}) {
		if err := Unreadable(file); err != nil {
			log.Warn(name+" certificate: a new one is not loaded before a restart; let the user that haul runs as read the files (chgrp, chmod 640)",
				"uid", os.Getuid(), "error", err)
		}
	}
}

// Unreadable returns an error if this process may not read one of these files.
func Unreadable(files ...string) error {
	for _, file := range files {
		f, err := os.Open(file)
		if errors.Is(err, fs.ErrPermission) {
			return err
		}
		_ = f.Close() // does nothing if f is nil
	}
	return nil
}
