// Package storewire converts attributes and errors between package store and package wire, the
// values of SFTP version 3. The server converts in one direction, and the client in the other.
package storewire
