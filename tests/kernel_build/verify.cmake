# FIELDS_PROGRAM writes the argument types of every operator; the tool checks the manifests below FOLDER with them.
execute_process(COMMAND "${FIELDS_PROGRAM}" OUTPUT_FILE "${FIELDS}" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${PYTHON}" "${TOOL}" verify "${FOLDER}" --fields "${FIELDS}" --quiet COMMAND_ERROR_IS_FATAL ANY)
