package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// part is something that procinsh is made of.
type part struct {
	name, version string
	license       string // SPDX identifier
	text          string // of the licence, of Go modules
	url           string // package URL
	source        string // where it is from, "" unknown
	sha512        string // of what npm fetches, hex; "" unknown
}

// linkedModules are the modules of the binary, and the library of Go.
func linkedModules() ([]part, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=Module", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		var e *exec.ExitError
		errors.As(err, &e)
		return nil, fmt.Errorf("go list: %w: %s", err, e.Stderr)
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	parts := []part{{name: "std", version: strings.TrimPrefix(runtime.Version(), "go"), source: "https://go.dev/dl/",
		url: "pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go")}}
	dirs := []string{strings.TrimSpace(string(goroot))}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Module *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := dec.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		m := p.Module
		if m == nil || m.Main || slices.Contains(dirs, m.Dir) {
			continue
		}
		dirs = append(dirs, m.Dir)
		parts = append(parts, part{name: m.Path, version: m.Version, source: "https://" + m.Path, url: "pkg:golang/" + m.Path + "@" + m.Version})
	}
	for i, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, "LICENSE"))
		if err != nil {
			return nil, fmt.Errorf("licence of %s: %w", parts[i].name, err)
		}
		parts[i].text = strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n"))
		if parts[i].license = licenseOf(parts[i].text); parts[i].license == "" {
			return nil, fmt.Errorf("licence of %s is none that is known here", parts[i].name)
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.name, b.name) })
	return parts, nil
}

// licenseOf names a licence by what its text says, "" when it is none of those that
// may be linked.
func licenseOf(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	switch {
	case strings.Contains(text, "Permission is hereby granted, free of charge, to any person obtaining a copy"):
		return "MIT"
	case strings.Contains(text, "Redistribution and use in source and binary forms") && strings.Contains(text, "Neither the name of"):
		return "BSD-3-Clause"
	}
	return ""
}

// bundledPackages are the packages of a lock file that are no tools.
func bundledPackages(lock []byte) ([]part, error) {
	var file struct {
		Packages map[string]struct {
			Version, License, Resolved, Integrity string
			Dev, DevOptional                      bool
		}
	}
	if err := json.Unmarshal(lock, &file); err != nil {
		return nil, fmt.Errorf("lock file: %w", err)
	}
	var parts []part
	for path, p := range file.Packages {
		if path == "" || p.Dev || p.DevOptional {
			continue
		}
		name := path[strings.LastIndex(path, "node_modules/")+len("node_modules/"):]
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(p.Integrity, "sha512-"))
		if err != nil || len(sum) != 64 || p.Version == "" || p.License == "" {
			return nil, fmt.Errorf("lock file: %s has no version, licence or sum", path)
		}
		parts = append(parts, part{name: name, version: p.Version, license: p.License, source: p.Resolved,
			url: "pkg:npm/" + strings.Replace(name, "@", "%40", 1) + "@" + p.Version, sha512: hex.EncodeToString(sum)})
	}
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.name, b.name) })
	return parts, nil
}

// notices is the licences of modules as text; equal ones stand once.
func notices(modules []part) []byte {
	var b bytes.Buffer
	b.WriteString("procinsh is under the Apache License 2.0. Linked into it are:\n")
	done := map[string]bool{}
	for _, m := range modules {
		if done[m.text] {
			continue
		}
		done[m.text] = true
		var names []string
		for _, o := range modules {
			switch {
			case o.text != m.text:
			case o.name == "std": // whose version is that of who builds
				names = append(names, "the library of Go")
			default:
				names = append(names, o.name+" "+o.version)
			}
		}
		fmt.Fprintf(&b, "\n%s\n%s (%s)\n\n%s\n", strings.Repeat("=", 72), strings.Join(names, ", "), m.license, m.text)
	}
	return b.Bytes()
}
