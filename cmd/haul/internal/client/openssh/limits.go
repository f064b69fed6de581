package openssh

// These constants bound a configuration. A larger one is refused.
const (
	maxConfigFile  = 1 << 20 // bytes of a file
	maxConfigFiles = 256     // files in total; a file counts each time it is included
	maxDepth       = 16      // of includes, as in OpenSSH
	maxIdentities  = 100     // files of keys, and of certificates, as in OpenSSH
	maxKnownFiles  = 32      // files of host keys, as in OpenSSH
	maxFaults      = 10      // faulty lines reported at once
	maxIgnored     = 100     // entries of Destination.Ignored
)

// maxJumps bounds the jump hosts of a connection.
const maxJumps = 8
