#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Completion in my shell, the manual page, the version
# says: ^--batch $
# says: ^dgx-h100 dgx-h200 $
# says: ^complete -c partita -n '__fish_seen_subcommand_from plan' -l batch -r
# says: ^#compdef partita$
# says: ^\.TH PARTITA 1
# says: ^[0-9]+\.[0-9]+\.[0-9]+$
set +e  # compgen that finds nothing is no fault
source <(partita completion bash)
complete_for() { COMP_WORDS=(partita "$@"); COMP_CWORD=$#; _partita; printf '%s ' "${COMPREPLY[@]}"; echo; }
complete_for plan --batc
complete_for plan model.onnx --machine dgx-h
partita completion fish | grep -e '-l batch' | head -1
partita completion zsh | grep compdef
partita completion man | grep TH
partita version
